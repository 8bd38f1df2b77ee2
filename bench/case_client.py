"""The cases client-*: CPU per request of the load generator and of other clients."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial

from bench.case import Case, Place, Row, Side, Source, Turn, Unit
from bench.client_cost import Layout
from bench.figures import Bound, Goal
from bench.model_files import LARGE, TINY, Measurand
from bench.null_server import null_server, require_null_server
from bench.senders import (
    ANSWERED_SHARE,
    COST,
    Sender,
    ours_closed,
    ours_open,
    perf_closed,
    perf_open,
    python_client,
    wrk,
)
from bench.servers import Server, inferometer_server, require_triton, triton_server

_MICROSECONDS = Unit(" µs", 1, scale=1e6)
_PERCENT = Unit(" %", 1, scale=100)
_KEEPS_IT = (Bound("figure", "at least", 0.99),)


@dataclass(frozen=True, slots=True)
class _Host:
    """A server that requests are sent to."""

    name: str
    serve: Callable[[Place, Measurand], AbstractContextManager[Server]]
    require: Callable[[], None] = lambda: None


_NULL = _Host("null server", null_server, require_null_server)
_PROXIED = _Host("as behind Envoy", partial(null_server, proxied=True), require_null_server)
_OURS = _Host("our server", inferometer_server)
_TRITON = _Host("Triton", lambda place, _: triton_server(place), require_triton)


@dataclass(frozen=True, slots=True)
class _Contest:
    """Ours next to a peer at one server."""

    host: _Host
    ours: Sender
    peer: Sender
    figure: str = COST
    goal: Goal = ()
    peer_host: _Host | None = None
    """Where the peer sends to another server."""

    @property
    def pairs(self) -> tuple[tuple[_Host, Sender], tuple[_Host, Sender]]:
        """Who sends to whom."""
        return (self.host, self.ours), (self.peer_host or self.host, self.peer)

    @property
    def row(self) -> Row:
        """Its name in the table."""
        at = f"{self.ours.name.removeprefix('Inferometer, ')}, {self.host.name}"
        what = at if self.figure == COST else f"{at}: {self.figure}"
        unit = _MICROSECONDS if self.figure == COST else _PERCENT
        ours, peer = (_side(*each) for each in self.pairs)
        return Row(what, Source(ours, self.figure), unit, Source(peer, self.figure), self.goal)


def _side(host: _Host, sender: Sender) -> str:
    return f"{sender.name}, {host.name}"


def _contests(
    hosts: Iterable[_Host], ours: Sender, peer: Sender, limit: float, figure: str = COST
) -> list[_Contest]:
    goal = (Bound("ratio", "at most", limit),) if figure == COST else _KEEPS_IT
    return [_Contest(host, ours, peer, figure, goal) for host in hosts]


def _case(
    name: str,
    title: str,
    text: str,
    minutes: float,
    contests: list[_Contest],
    measurand: Measurand = TINY,
) -> Case:
    sent = {_side(*pair): pair for contest in contests for pair in contest.pairs}

    @contextmanager
    def stage(place: Place, sides: frozenset[str]) -> Iterator[Mapping[str, Turn]]:
        wanted = {name: sent[name] for name in sent if name in sides}
        with ExitStack() as stack:
            hosts = {host.name: host for host, _ in wanted.values()}
            servers = {
                host.name: stack.enter_context(host.serve(place, measurand))
                for host in hosts.values()
            }
            yield {
                name: partial(sender.send, place, servers[host.name])
                for name, (host, sender) in wanted.items()
            }

    def require(host: _Host, sender: Sender) -> None:
        host.require()
        sender.require()

    return Case(
        name=name,
        title=title,
        text=text,
        commands=(f".venv/bin/python bench/run.py --case {name}",),
        sides=tuple(Side(name, partial(require, *pair)) for name, pair in sent.items()),
        stage=stage,
        rows=tuple(contest.row for contest in contests),
        minutes=minutes,
        seconds=2,
    )


_BOTH = (_NULL, _OURS)
_HTTP = ours_closed("HTTP", Layout(8))
_ONE_BY_EIGHT = ours_closed("GRPC", Layout(1, 8))
_EIGHT_BY_ONE = ours_closed("GRPC", Layout(8, 1))
_WHAT = """\
User and system time of the client for each request, binary tensors both ways; the client has one
core, the server the other. Each sends one request again and again. Inferometer is all of it, its
scenario `concurrency` with 8 clients: replies parsed, status and framing of each checked and the
outputs of one in 64, histograms, windows, progress. By itself it sends 16 different requests in
turn (`load.inputs.random.poolSize`), which costs about a tenth more where they take 602 kB each."""

CLIENT_CLOSED = _case(
    "client-closed",
    "What a request costs the client: 8 outstanding, a tiny model",
    f"""\
{_WHAT}

wrk looks at the status only, perf_analyzer (2.51, a thread for each request outstanding as
is its default) at nothing of the outputs. *1 x 8* is one connection with 8 streams, *8 x 1* eight
connections with one. The *null server* is one process in Go, net/http and grpc-go, that answers
without looking; Triton has its Python backend. What a request costs depends on how many replies
come with one read, and so on the server.""",
    8,
    [
        *_contests(_BOTH, _HTTP, wrk(), 1.25),
        *_contests(_BOTH, _HTTP, perf_closed("HTTP"), 0.4),
        *_contests([_NULL], _ONE_BY_EIGHT, perf_closed("GRPC"), 0.25),
        *_contests([_TRITON], _ONE_BY_EIGHT, perf_closed("GRPC"), 0.45),
        *_contests(_BOTH, _EIGHT_BY_ONE, perf_closed("GRPC", share=1), 0.5),
    ],
)

CLIENT_OPEN = _case(
    "client-open",
    "What a request costs the client: Poisson arrivals, a tiny model",
    """\
User and system time of the client for each request, where each request costs a wake-up of its
own, and each sends one request again and again: Inferometer's scenario `server`, and
perf_analyzer's request rate with its own default, four threads that wait for their replies (its
asynchronous calls cost more, and now and then do not end).

*Answered of what was due*: for ours the answered share of the window's schedule, for
perf_analyzer its throughput by the requested rate, since it does not report its schedule.""",
    6.5,
    [
        contest
        for protocol in ("HTTP", "GRPC")
        for per_second in (2_000, 5_000)
        for pair in [(ours_open(protocol, per_second), perf_open(protocol, per_second))]
        for contest in (
            *_contests(_BOTH, *pair, 0.6),
            *_contests(_BOTH, *pair, 0.99, ANSWERED_SHARE),
        )
    ],
)

CLIENT_LARGE = _case(
    "client-large",
    "What a request costs the client: tensors of 602 kB",
    f"""\
{_WHAT}

The model takes an image of 3 x 224 x 224 numbers and returns the greatest of each channel,
so that next to nothing is computed. gRPC has one connection with 8 streams.""",
    3.5,
    [
        *_contests(_BOTH, ours_closed("HTTP", Layout(8), LARGE), wrk(LARGE), 1.2),
        *_contests(
            _BOTH,
            ours_closed("GRPC", Layout(1, 8), LARGE),
            perf_closed("GRPC", measurand=LARGE),
            0.7,
        ),
    ],
    LARGE,
)

CLIENT_PYTHON = _case(
    "client-python",
    "What a request costs the client: others in Python",
    f"""\
{_WHAT}

Locust's FastHttpUser posts bytes that were made before. tritonclient is used as its
examples use it: `tritonclient.http` in greenlets, `tritonclient.grpc.aio` in tasks, each reply read
into an array.""",
    4,
    [
        *_contests(_BOTH, _HTTP, python_client("Locust", "HTTP"), 1 / 6),
        *_contests(_BOTH, _HTTP, python_client("tritonclient", "HTTP"), 1 / 6),
        *_contests(_BOTH, _ONE_BY_EIGHT, python_client("tritonclient", "GRPC"), 1 / 6),
    ],
)

CLIENT_PROXIED = _case(
    "client-proxied",
    "What a request costs the client behind a proxy",
    f"""\
{_WHAT}

Both times the null server answers; one of them as if Envoy stood before it, with `server`,
`date`, `x-request-id` and `x-envoy-upstream-service-time` in each reply, so that no two replies
have the same header block and nothing that was read before helps.""",
    1.5,
    [
        _Contest(_PROXIED, ours, ours, COST, (Bound("ratio", "at most", 2),), _NULL)
        for ours in (_HTTP, _ONE_BY_EIGHT)
    ],
)

CLIENT_CASES = (CLIENT_CLOSED, CLIENT_OPEN, CLIENT_LARGE, CLIENT_PYTHON, CLIENT_PROXIED)
