"""Certificates of a server: what works, and what is said of what does not."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest
from tests.support.certificates import DAY, self_signed

from antiphon.engines.deployment import Access, DeploymentError
from antiphon.web.tls import load_tls


def test_without_a_certificate_there_is_no_tls() -> None:
    assert load_tls(Access()) is None


def test_a_certificate_that_works(tmp_path: Path) -> None:
    made = self_signed(tmp_path)
    tls = load_tls(Access(tls_certificate=str(made.certificate), tls_key=str(made.key)))
    assert tls is not None
    year = (dt.datetime.now(dt.UTC) + 30 * DAY).year
    assert str(year) in tls.expires


def refused(certificate: Path, key: Path) -> str:
    with pytest.raises(DeploymentError) as raised:
        load_tls(Access(tls_certificate=str(certificate), tls_key=str(key)))
    return str(raised.value)


def test_a_certificate_that_has_expired(tmp_path: Path) -> None:
    old = self_signed(tmp_path, begins=-2 * DAY, ends=-DAY)
    said = refused(old.certificate, old.key)
    assert said == f"access.tls_certificate: {old.certificate} has expired; renew it"


def test_a_certificate_of_the_future(tmp_path: Path) -> None:
    new = self_signed(tmp_path, begins=DAY, ends=2 * DAY)
    assert "is not valid yet; check the clock" in refused(new.certificate, new.key)


def test_a_certificate_of_another_key(tmp_path: Path) -> None:
    one, other = self_signed(tmp_path), self_signed(tmp_path, "other")
    said = refused(one.certificate, other.key)
    assert said.startswith(f"access.tls_key: {other.key} is not the key of {one.certificate}")


def test_a_key_with_a_password(tmp_path: Path) -> None:
    one = self_signed(tmp_path, password="sesame")
    assert f"access.tls_key: {one.key} has a password" in refused(one.certificate, one.key)


def test_files_that_are_not_there(tmp_path: Path) -> None:
    one = self_signed(tmp_path)
    missing = tmp_path / "none.pem"
    said = refused(missing, one.key)
    assert said.startswith(f"access.tls_certificate: cannot read {missing}: No such file")
    assert "remove both" in said
    assert refused(one.certificate, missing).startswith("access.tls_key: cannot read")


def test_files_that_hold_something_else(tmp_path: Path) -> None:
    one = self_signed(tmp_path)
    other = tmp_path / "other.pem"
    other.write_text("hello")
    assert "are no PEM certificate and key" in refused(other, one.key)
    assert "are no PEM certificate and key" in refused(one.certificate, other)
