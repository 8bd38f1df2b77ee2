"""Results as a load generator writes them to its log, and as the operator receives them."""

from inferometer_api.plan.load_report import LoadReport
from inferometer_api.results.gzip_members import decompress
from inferometer_api.results.result import ResultDocument
from inferometer_api.results.result_transport import LoggedResult, decode_log, join_document
from inferometer_loadgen.pod.result_delivery import encode_result
from inferometer_operator.reconcile.observed import DownloadedResult
from inferometer_operator.wiring.result_download import parse_result


def result_log(document: ResultDocument) -> list[str]:
    """Return the lines of a document in a log."""
    return list(encode_result(document, LoadReport()).lines)


def downloaded(document: ResultDocument) -> DownloadedResult:
    """Return what the operator receives of a document."""
    return parse_result(decode_log(result_log(document)))


def document_bytes(logged: LoggedResult) -> bytes:
    """Return the whole document."""
    return join_document(logged.head, decompress(logged.body_gz))


def document_of(found: DownloadedResult) -> ResultDocument | None:
    """Return the whole document, or None if there is none."""
    if found.result is None:
        return None
    head = found.result.head.model_dump_json(exclude_none=True).encode()
    return ResultDocument.model_validate_json(join_document(head, decompress(found.result.body_gz)))
