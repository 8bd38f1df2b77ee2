"""Which ConfigMap tells the load generator its plan?"""

from inferometer_api.plan.cluster_objects import LOADGEN, load_name
from inferometer_api.plan.load_plan import LoadPlan
from inferometer_operator.manifests.owner import Manifest, Owner, child_metadata

PLAN_FILE = "plan.json"


def plan_config_map(plan: LoadPlan, owner: Owner) -> Manifest:
    """Return the ConfigMap with the plan of the run's load generator."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": child_metadata(owner, load_name(owner.name), LOADGEN),
        "immutable": True,
        "data": {PLAN_FILE: plan.model_dump_json(exclude_none=True)},
    }
