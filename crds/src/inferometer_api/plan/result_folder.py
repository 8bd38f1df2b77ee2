"""Files of a load pod's result folder, and where its exporter copies them.

The image of the exporter has no pydantic.
"""

import re

from inferometer_api.spec.address import CLAIMS, Address, AddressError, address

DOCUMENT_FILE = "result.json"
MANIFEST_FILE = "files.json"
"""Lists all other files. It is written last, so that its presence says that all are there."""
LOCK_FILE = "load-generator.lock"
"""A load generator holds a lock on it as long as it lives: the kernel releases the lock."""
FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}")
"""Names of the files in the folder."""
POD_INDEX_VARIABLE = "JOB_COMPLETION_INDEX"
"""The environment variable with the index of a pod of an Indexed Job."""


def export_address(uri: str) -> Address:
    """Return the parts of the address of an export, with or without a slash at its end.

    Raises AddressError if it is not s3://BUCKET/PREFIX or pvc://CLAIM/PATH.
    """
    found = address(uri.rstrip("/"))
    if found is None or found.kind == "configmap":
        raise AddressError(f"The address {uri} takes no files: write s3://... or pvc://...")
    return found


def claim_folder(root: str, claim: str) -> str:
    """Return the folder that a claim is mounted at, below the folder `root`."""
    return f"{root}/{CLAIMS}/{claim}"
