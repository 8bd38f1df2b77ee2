"""Addresses of models and data, with a refusal of those without valid parts."""

from inferometer_api.spec.address import Address, AddressError, address
from inferometer_models.errors import ModelRefusedError


def checked_address(uri: str) -> Address | None:
    """Return the parts of a pvc://, configmap:// or s3:// address; None for every other kind.

    Raises ModelRefusedError if a part is missing or not valid, or the path leaves the place.
    """
    try:
        return address(uri)
    except AddressError as error:
        raise ModelRefusedError(str(error)) from error
