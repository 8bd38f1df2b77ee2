"""How many bytes does a quantity of Kubernetes stand for?"""

_SIZES = {
    "": 1,
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
}


def whole_bytes(quantity: str) -> int:
    """Return the bytes of a whole quantity: 2147483648 for "2Gi".

    `quantity` is a MemoryQuantity of the documents, whose pattern has been checked.
    """
    digits = quantity.rstrip("kMGTi")
    return int(digits) * _SIZES[quantity.removeprefix(digits)]
