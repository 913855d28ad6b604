"""Which URLs and addresses are refused, and why."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.engines.jobs.addresses import FetchRefused, check_address, check_url, is_public
from antiphon.engines.jobs.input_limits import FetchConfig

HOSTS = ("example.com", "*.cdn.example.com", "store.test:8443", "[2606:4700::1]:8080")


def refused(url: str, hosts: tuple[str, ...] = HOSTS) -> str:
    with pytest.raises(FetchRefused) as caught:
        check_url(url, hosts, ())
    return caught.value.code


@pytest.mark.parametrize(
    ("url", "host", "port", "path", "authority"),
    [
        ("http://example.com", "example.com", 80, "/", "example.com"),
        ("https://EXAMPLE.com./a?b=c#d", "example.com", 443, "/a?b=c", "example.com"),
        ("http://example.com:443/", "example.com", 443, "/", "example.com:443"),
        ("https://a.b.cdn.example.com/x", "a.b.cdn.example.com", 443, "/x", "a.b.cdn.example.com"),
        ("https://store.test:8443/?q", "store.test", 8443, "/?q", "store.test:8443"),
        ("http://[2606:4700::1]:8080/", "2606:4700::1", 8080, "/", "[2606:4700::1]:8080"),
    ],
)
def test_named_hosts_are_allowed(url: str, host: str, port: int, path: str, authority: str) -> None:
    target = check_url(url, HOSTS, ())
    assert (target.host, target.port, target.path) == (host, port, path)
    assert target.authority == authority
    assert target.secure is url.startswith("https")
    assert not target.private
    assert check_url(url, (), HOSTS).private


@pytest.mark.parametrize(
    "url",
    [
        "http://example.org/",
        "http://example.com.evil.test/",
        "http://evil-example.com/",
        "http://cdn.example.com/",
        "http://evilcdn.example.com/",
        "http://example.com:8080/",
        "http://store.test/",
        "http://127.0.0.1/",
        "http://2130706433/",
        "http://[::1]/",
        "http://localhost/",
    ],
)
def test_other_hosts_and_ports_are_not(url: str) -> None:
    assert refused(url) == "url_not_allowed"


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.com/",
        "file:///etc/passwd",
        "//example.com/",
        "http:/example.com",
        "http://user@example.com/",
        "http://user:secret@example.com/",
        "http://example.com@evil.test/",
        "http://evil.test\\@example.com/",
        "http://example.com/ a",
        "http://example.com/\r\nX: y",
        "http://exämple.com/",
        "http://example.com:99999/",
        "http://example.com:x/",
        "http://[::1/",
        "http://example.com/" + "a" * 4096,
    ],
)
def test_what_can_be_read_in_two_ways_is_no_url(url: str) -> None:
    assert refused(url) == "url_invalid"


def test_nothing_is_fetched_unless_hosts_are_named() -> None:
    with pytest.raises(FetchRefused, match=r"media\.fetch\.hosts"):
        check_url("http://example.com/", (), ())


@pytest.mark.parametrize("address", ["93.184.215.14", "8.8.8.8", "2606:4700::1111"])
def test_public_addresses(address: str) -> None:
    check_address(address)


@pytest.mark.parametrize("private", [False, True])
@pytest.mark.parametrize(
    "address",
    [
        *("0.0.0.0", "169.254.169.254", "192.0.0.8", "192.0.2.1", "192.88.99.1", "198.18.0.1"),
        *("224.0.0.1", "240.0.0.1", "255.255.255.255", "::", "::7f00:1", "::ffff:127.0.0.1"),
        *("::ffff:8.8.8.8", "64:ff9b::7f00:1", "64:ff9b::808:808", "64:ff9b:1::a00:1"),
        *("2001:0:1::1", "2002:7f00:1::", "2002:808:808::", "2001:db8::1", "fe80::1", "fec0::1"),
        *("2001:20::1", "3fff::1", "203.0.113.9"),
        *("fe80::1%eth0", "2606:4700::1111%1", "ff02::1", "100::1", "4000::1", "", "nothing"),
    ],
)
def test_addresses_that_are_reached_by_nobody(address: str, private: bool) -> None:
    with pytest.raises(FetchRefused):
        check_address(address, private=private)


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "100.64.0.1", "::1", "fd00::1"],
)
def test_private_addresses_are_for_hosts_that_are_named_as_such(address: str) -> None:
    with pytest.raises(FetchRefused, match="private_hosts"):
        check_address(address)
    check_address(address, private=True)


@given(st.ip_addresses(v=4))
def test_no_address_of_ipv4_hides_in_one_of_ipv6(address: IPv4Address) -> None:
    for prefix in ("::", "::ffff:", "64:ff9b::", "::ffff:0:"):
        assert not is_public(ip_address(f"{prefix}{address}"))
    six = IPv6Address((0x2002 << 112) | (int(address) << 80) | 1)
    assert not is_public(six)


@pytest.mark.parametrize(
    "host",
    ["", "*", "http://example.com", "Example.com", "example.com/", "a b", "*.*.com", "x:0", "-x"],
)
def test_hosts_of_a_deployment_are_checked(host: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=r"expected hosts"):
        msgspec.convert({"hosts": [host]}, FetchConfig)
    with pytest.raises(msgspec.ValidationError, match=r"private_hosts"):
        msgspec.convert({"private_hosts": [host]}, FetchConfig)


def test_hosts_that_are_some() -> None:
    for host in (*HOSTS, "localhost:9000", "10.0.0.1"):
        assert msgspec.convert({"hosts": [host]}, FetchConfig).hosts == (host,)
