"""The addresses of a cluster. Pure: they follow from its slot and a node's number.

Only the wire between the machine and a cluster is seen from outside: it lies in 198.18.0.0/15,
which RFC 2544 keeps for benchmarks. All else exists in the cluster's own networks alone, so that
every cluster uses the same.
"""

from dataclasses import dataclass

SLOTS = 64
POD_RANGE = "10.88.0.0/16"
SWITCH = "10.89.0.1"
"""The switch that joins the nodes; the name server answers here."""
SWITCH_BITS = 16


@dataclass(frozen=True, slots=True)
class Wire:
    """The two ends of the wire between the machine and the cluster in this slot."""

    slot: int

    @property
    def interface(self) -> str:
        """Return the name of the machine's end: it exists as long as the cluster does."""
        return f"inferometer{self.slot}"

    @property
    def machine(self) -> str:
        """Return the address of the machine's end."""
        return f"198.18.{self.slot}.1"

    @property
    def cluster(self) -> str:
        """Return the address of the cluster's end: the API server's."""
        return f"198.18.{self.slot}.2"

    @property
    def cgroup(self) -> str:
        """Return the name of the cluster's control group."""
        return f"inferometer-{self.slot}"


def node_address(number: int) -> str:
    """Return the address of the node with this number, counted from 1."""
    return f"10.89.1.{number}"


def pod_range(number: int) -> str:
    """Return the addresses of the pods on the node with this number."""
    return f"10.88.{number}.0/24"


def switch_plan(wire: Wire) -> list[str]:
    """Return the `ip` commands that give a cluster's own network its wire and its switch."""
    return [
        "link set lo up",
        f"addr add {wire.cluster}/30 dev uplink",
        "link set uplink up",
        # An address of its own: by default a bridge takes one of its ports', and when that node
        # dies, all others look for the API server where it was.
        "link add switch address 02:00:00:00:00:01 type bridge",
        f"addr add {SWITCH}/{SWITCH_BITS} dev switch",
        "link set switch up",
    ]


def port_plan(number: int, name: str, node_pid: int) -> list[str]:
    """Return the `ip` commands, run at the switch, that plug a node in."""
    return [
        f"link add {name} type veth peer name eth0 netns {node_pid}",
        f"link set {name} master switch up",
        f"route replace {pod_range(number)} via {node_address(number)}",
    ]


def node_plan(wire: Wire, number: int, nodes: int) -> list[str]:
    """Return the `ip` commands, run on a node, by which it finds everyone else.

    There is no default route: whatever is outside is unreachable at once. The route to Services
    is never followed, since they are translated; without it a connection from the node itself
    would fail before that.
    """
    others = [other for other in range(1, nodes + 1) if other != number]
    return [
        "link set lo up",
        f"addr add {node_address(number)}/{SWITCH_BITS} dev eth0",
        "link set eth0 up",
        f"route add {wire.cluster}/32 via {SWITCH}",
        f"route add 10.96.0.0/16 via {SWITCH}",
        *(f"route add {pod_range(other)} via {node_address(other)}" for other in others),
    ]
