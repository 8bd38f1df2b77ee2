"""Replies of real servers: one inference of a tiny model by each, byte for byte."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Recorded:
    """One server's replies."""

    http: bytes
    greeting: bytes
    """What it said on a gRPC connection before any request: its settings."""
    grpc: bytes
    """Its reply to the first stream, with whatever it said besides."""


# fmt: off
RECORDED = {
    "Inferometer": Recorded(
    http=(
        b'HTTP/1.1 200 OK\r\nContent'
        b'-Type: application/octet'
        b'-stream\r\nContent-Length:'
        b' 151\r\nInference-Header-C'
        b'ontent-Length: 135\r\n\r\n{"'
        b'model_name":"tiny","mode'
        b'l_version":"1","outputs"'
        b':[{"name":"y","datatype"'
        b':"FP32","shape":[1,4],"p'
        b'arameters":{"binary_data'
        b'_size":16}}]}\x93l\x8b?\x7f\x881@\x80\xe4i'
        b'@K\x0b\x8e@'
    ),
    greeting=(
        b"\x00\x00\x18\x04\x00\x00\x00\x00\x00\x00\x04\x00@\x00\x00\x00\x05\x00@\x00\x00\x00\x06\x00"
        b"\x00@\x00\xfe\x03\x00\x00\x00\x01\x00\x00\x04\x08\x00\x00\x00\x00\x00\x00?\x00\x01\x00\x00"
        b"\x00\x04\x01\x00\x00\x00\x00"
    ),
    grpc=(
        b"\x00\x00\x08\x06\x00\x00\x00\x00\x00c\xa0\xb6\xb8\x93\x03\xff\x03\x00\x00O\x01\x04\x00\x00"
        b"\x00\x01 \x88@\x0ccontent-type\x10appli"
        b"cation/grpc@\x14grpc-accept"
        b"-encoding\x17identity, defl"
        b"ate, gzip\x00\x00/\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00*\n"
        b"\x04tiny\x12\x011*\r\n\x01y\x12\x04FP32\x1a\x02\x01\x042"
        b"\x10\x93l\x8b?\x7f\x881@\x80\xe4i@K\x0b\x8e@\x00\x00\x1e\x01\x05\x00\x00"
        b"\x00\x01@\x0bgrpc-status\x010\x00\x0cgrpc-"
        b"message\x00\x00\x00\x04\x08\x00\x00\x00\x00\x00\x00\x00\x001"
    ),
    ),
    "Triton": Recorded(
    http=(
        b'HTTP/1.1 200 OK\r\nContent'
        b'-Type: application/octet'
        b'-stream\r\nInference-Heade'
        b'r-Content-Length: 135\r\nC'
        b'ontent-Length: 151\r\n\r\n{"'
        b'model_name":"tiny","mode'
        b'l_version":"1","outputs"'
        b':[{"name":"y","datatype"'
        b':"FP32","shape":[1,4],"p'
        b'arameters":{"binary_data'
        b'_size":16}}]}\x93l\x8b?\x7f\x881@\x80\xe4i'
        b'@K\x0b\x8e@'
    ),
    greeting=(
        b"\x00\x00\x18\x04\x00\x00\x00\x00\x00\x00\x04\x00@\x00\x00\x00\x05\x00@\x00\x00\x00\x06\x00"
        b"\x00@\x00\xfe\x03\x00\x00\x00\x01\x00\x00\x04\x08\x00\x00\x00\x00\x00\x00?\x00\x01\x00\x00"
        b"\x00\x04\x01\x00\x00\x00\x00"
    ),
    grpc=(
        b"\x00\x00\x08\x06\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00O\x01\x04\x00\x00"
        b"\x00\x01 \x88@\x0ccontent-type\x10appli"
        b"cation/grpc@\x14grpc-accept"
        b"-encoding\x17identity, defl"
        b"ate, gzip\x00\x00/\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00*\n"
        b"\x04tiny\x12\x011*\r\n\x01y\x12\x04FP32\x1a\x02\x01\x042"
        b"\x10\x93l\x8b?\x7f\x881@\x80\xe4i@K\x0b\x8e@\x00\x00\x0f\x01\x05\x00\x00"
        b"\x00\x01@\x0bgrpc-status\x010\x00\x00\x04\x08\x00\x00\x00"
        b"\x00\x00\x00\x00\x001"
    ),
    ),
    "net/http and grpc-go": Recorded(
    http=(
        b'HTTP/1.1 200 OK\r\nContent'
        b'-Length: 165\r\nContent-Ty'
        b'pe: application/octet-st'
        b'ream\r\nInference-Header-C'
        b'ontent-Length: 149\r\nDate'
        b': Sat, 21 Nov 2026 13:46'
        b':25 GMT\r\n\r\n{"model_name"'
        b': "tiny", "model_version'
        b'": "1", "outputs": [{"na'
        b'me": "y", "datatype": "F'
        b'P32", "shape": [1, 4], "'
        b'parameters": {"binary_da'
        b'ta_size": 16}}]}\x00\x00\x00\x00\x00\x00\x00\x00'
        b'\x00\x00\x00\x00\x00\x00\x00\x00'
    ),
    greeting=(
        b"\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x05\x00\x00@\x00\x00\x00\x00\x04\x01\x00\x00\x00\x00"
    ),
    grpc=(
        b"\x00\x00\x04\x08\x00\x00\x00\x00\x00\x00\x00\x001\x00\x00\x08\x06\x00\x00\x00\x00\x00\x02\x04"
        b"\x10\x10\t\x0e\x07\x07\x00\x00\x10\x01\x04\x00\x00\x00\x01 \x88\x0f\x10\x8b\x1du\xd0b"
        b"\r&=LMed\x00\x00/\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00*\n\x04t"
        b"iny\x12\x011*\r\n\x01y\x12\x04FP32\x1a\x02\x01\x042\x10\x00"
        b"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x18\x01\x05\x00\x00\x00\x01"
        b"\x00\x88\x9a\xca\xc8\xb2\x124\xda\x8f\x010\x00\x89\x9a\xca\xc8\xb5%B\x071\x7f\x00"
    ),
    ),
}
# fmt: on
CHUNKED = (
    b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: application/json\r\n\r\n"
    b'1a;x=y\r\n{"outputs":[{"name":"y",\r\n'
    b"2\r\n}]\r\n1\r\n}\r\n0\r\nTrailer: x\r\n\r\n"
)
"""A reply by RFC 9112's rarer ways: an interim one before it, chunks, a trailer."""
