"""Regular expressions of text fields, and a description of each for messages.

The patterns mean the same in Rust, Go and Kubernetes: no look-around, no back-references, `^` and
`$` at both ends.
"""

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_HOST_LABEL = r"[A-Za-z0-9_]([-A-Za-z0-9_]*[A-Za-z0-9_])?"
_NAME = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"

DNS_LABEL = rf"^{_LABEL}$"
DNS_SUBDOMAIN = rf"^{_SUBDOMAIN}$"
HOST = rf"^({_HOST_LABEL}(\.{_HOST_LABEL})*|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*)$"
QUALIFIED_NAME = rf"^({_SUBDOMAIN}/)?{_NAME}$"
LABEL_VALUE = rf"^({_NAME})?$"
SHA256 = r"^[0-9a-f]{64}$"
CPU = (
    r"^([1-9][0-9]{0,5}(\.[0-9]{1,3})?|0\.([1-9][0-9]{0,2}|0[1-9][0-9]?|00[1-9])|[1-9][0-9]{0,8}m)$"
)
MEMORY = r"^[1-9][0-9]{0,14}(k|M|G|T|Ki|Mi|Gi|Ti)?$"
DECIMAL = r"^(0{0,3}[1-9][0-9]{0,6}(\.[0-9]{1,3})?|0{1,3}\.([1-9][0-9]{0,2}|0[1-9][0-9]?|00[1-9]))$"
MODEL_URI = r"^(zoo://|file:|https://|pvc://|s3://)[^ ]+$"
ZOO_URI = r"^zoo://[a-z0-9_]+/[a-z0-9_]+$"
DATA_URI = r"^(file:|configmap://|https://|pvc://|s3://)[^ ]+$"
DATASET_URI = r"^(builtin://|file:|configmap://|https://|pvc://|s3://)[^ ]+$"
EXPORT_URI = r"^(pvc://|s3://)[^ ]+$"
SEMVER = (
    r"^(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)"
    r"(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$"
)
# Printable ASCII without quotes; its parts have rules of their own.
SERVER_URL = r"^[!#-~]+$"
TIME = (
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})$"
)
CRON = r"^[0-9A-Za-z*,/#L-]+( [0-9A-Za-z*,/#L-]+){4}$"
TIME_ZONE = r"^[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+){0,2}$"
# The begin of the name of what a node benchmark measures.
PRIMITIVE = r"^[A-Za-z][A-Za-z0-9_/(), ]*$"
# A value as on a command line: any text of one or more lines.
SETTING = r"^(.|\n)*$"
SETTING_PATH = r"^spec[.\[].+$"
REASON = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"

MEANINGS = {
    DNS_LABEL: "a name of lower-case letters, digits and hyphens, at most 63 characters, with a "
    "letter or digit at both ends",
    DNS_SUBDOMAIN: "a name of lower-case letters, digits, hyphens and dots, at most 253 "
    "characters, with a letter or digit at both ends",
    HOST: "the name of a host or an IP address: models.example.com",
    QUALIFIED_NAME: "a name of letters, digits and any of - _ . with a letter or digit at both "
    "ends, at most 63 characters, with or without a domain before it: nvidia.com/gpu",
    LABEL_VALUE: "at most 63 letters, digits and any of - _ . with a letter or digit at both ends",
    SHA256: "64 lower-case hexadecimal digits, as sha256sum prints them",
    CPU: 'CPU cores, as Kubernetes writes them: 2, "0.5" or 500m',
    MEMORY: "bytes, as Kubernetes writes them: 512Mi, 2Gi or 2000000000",
    DECIMAL: "a positive number up to 9999999 with at most 3 decimals: a whole number (200) or, "
    'with decimals, in quotes ("16.5")',
    MODEL_URI: "an address without blanks (a blank is written %20): zoo://TASK/NAME, file:PATH, "
    "https://..., pvc://CLAIM/PATH or s3://BUCKET/KEY",
    ZOO_URI: "a built-in model as zoo://TASK/NAME, which `inferometer models` lists",
    DATA_URI: "an address without blanks (a blank is written %20): file:PATH, "
    "configmap://NAME/KEY, https://..., pvc://CLAIM/PATH or s3://BUCKET/KEY",
    DATASET_URI: "an address without blanks (a blank is written %20): builtin://NAME, file:PATH, "
    "configmap://NAME/KEY, https://..., pvc://CLAIM/PATH or s3://BUCKET/KEY",
    EXPORT_URI: "an address without blanks (a blank is written %20): s3://BUCKET/PREFIX or "
    "pvc://CLAIM/PATH",
    SEMVER: "a semantic version: 1.0.0 or 2.1.0-rc.1",
    SERVER_URL: "an address of ASCII characters, no blanks and no quotes among them (others, in "
    "its path, are written like %C3%A4): http://HOST:PORT, https://HOST:PORT, grpc://HOST:PORT or "
    "grpcs://HOST:PORT",
    TIME: "a time as RFC 3339 writes it: 2026-01-31T12:00:00Z",
    PRIMITIVE: 'the begin of a name, such as stream or "gemm (openvino"',
    REASON: "one word in CamelCase",
    CRON: "five fields of cron, separated by single blanks: minute, hour, day of month, month, day "
    'of week ("0 3 * * *")',
    TIME_ZONE: "the name of a time zone: Europe/Zurich, Etc/UTC",
    SETTING: "a whole number or a text with YAML in it",
    SETTING_PATH: "a path that begins with spec: spec.load.protocol, "
    "spec.scenarios[0].server.targetQps",
}
"""Description of each pattern, after "must be"."""
