"""Items as clients send them: what is allowed, and what becomes of them."""

from __future__ import annotations

from .conversation import MAX_IMAGE_BYTES
from .errors import Refusal
from .events import ItemReference
from .items import Item, ItemKind, NewItem, PartKind
from .merging import MAX_NAME_CHARS
from .settings import Capabilities
from .state import SessionState

MAX_CALL_ID_CHARS = 256
"""Of a call that a client made; ours have 26."""


def check_item(new: NewItem, can: Capabilities, at: str = "item") -> None:
    """Make sure that an item is allowed.

    Raises:
        Refusal: it is too long, lacks what its kind needs, or shows a blind model an
            image; ``param`` names the member, as a path below ``at``.
    """
    if new.call_id is not None and not 1 <= len(new.call_id) <= MAX_CALL_ID_CHARS:
        param = f"{at}.call_id"
        raise Refusal(
            "invalid_value", f"{param} must have 1 to {MAX_CALL_ID_CHARS} characters.", param
        )
    match new.kind:
        case ItemKind.MESSAGE:
            _check_parts(new, can, at)
        case ItemKind.FUNCTION_CALL:
            if new.name is None or not 1 <= len(new.name) <= MAX_NAME_CHARS:
                param = f"{at}.name"
                raise Refusal(
                    "invalid_value", f"{param} must have 1 to {MAX_NAME_CHARS} characters.", param
                )
            _check_length(len(new.arguments), can, f"{at}.arguments")
        case ItemKind.FUNCTION_OUTPUT:
            if new.call_id is None:
                param = f"{at}.call_id"
                raise Refusal("missing_required_parameter", f"{param} is required.", param)
            _check_length(len(new.output), can, f"{at}.output")


def make_item(new: NewItem, state: SessionState) -> Item:
    """Return the item that a client asks for, with ids where it gave none."""
    called = new.kind is ItemKind.FUNCTION_CALL and new.call_id is None
    return Item(
        id=new.id or state.ids.next("item"),
        kind=new.kind,
        role=new.role,
        parts=new.parts,
        call_id=state.ids.next("call") if called else new.call_id,
        name=new.name,
        arguments=new.arguments,
        output=new.output,
    )


def make_input(
    wanted: tuple[NewItem | ItemReference, ...], state: SessionState
) -> tuple[Item | ItemReference, ...]:
    """Return what a response shall answer instead of the conversation.

    Raises:
        Refusal: an item is not allowed or not there, or they are too many.
    """
    if len(wanted) > state.can.max_items:
        param = "response.input"
        raise Refusal(
            "invalid_value", f"{param} may have at most {state.can.max_items} items.", param
        )
    for index, each in enumerate(wanted):
        _check_input(each, state, f"response.input[{index}]")
    images = sum(_image_bytes(each) for each in wanted if isinstance(each, NewItem))
    if images > MAX_IMAGE_BYTES:
        raise _too_long("response.input", f"{MAX_IMAGE_BYTES} bytes of images")
    return tuple(
        each if isinstance(each, ItemReference) else make_item(each, state) for each in wanted
    )


def _check_input(each: NewItem | ItemReference, state: SessionState, at: str) -> None:
    if isinstance(each, ItemReference):
        if state.conversation.get(each.item_id) is None:
            raise Refusal(
                "item_reference_invalid_item_id",
                f"Error referencing item: the item with id '{each.item_id}' does not exist.",
                f"{at}.id",
            )
        return
    check_item(each, state.can, at)
    for index, part in enumerate(each.parts):
        if part.kind is PartKind.INPUT_AUDIO and not part.text:
            param = f"{at}.content[{index}]"
            raise Refusal(
                "unsupported_content_type",
                f"{param} is audio without a transcript. Give its transcript, or add it to the "
                "conversation and refer to it with an item_reference.",
                param,
            )


def _check_parts(new: NewItem, can: Capabilities, at: str) -> None:
    for index, part in enumerate(new.parts):
        if part.kind is PartKind.INPUT_IMAGE and not can.sees:
            raise Refusal(
                "unsupported_content_type",
                "The model of this session can't see images: content may be 'input_text' or "
                "'input_audio'.",
                f"{at}.content[{index}].type",
            )
    if _image_bytes(new) > MAX_IMAGE_BYTES:
        raise _too_long(f"{at}.content", f"{MAX_IMAGE_BYTES} bytes of images")
    _check_length(sum(len(part.text or "") for part in new.parts), can, f"{at}.content")


def _check_length(length: int, can: Capabilities, param: str) -> None:
    if length > can.max_text_chars:
        raise _too_long(param, f"{can.max_text_chars} characters")


def _too_long(param: str, most: str) -> Refusal:
    return Refusal("string_above_max_length", f"{param} may have at most {most}.", param)


def _image_bytes(new: NewItem) -> int:
    return sum(len(part.image_url or "") for part in new.parts)
