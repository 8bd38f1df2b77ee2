"""The request to remove images from a node, and its answer."""

from pydantic import Field

from inferometer_api.document import Document

REMOVAL_AUDIENCE = "images.inferometer.dev"
"""The audience of the tokens by which operators are known."""
REMOVAL_PATH = "/v1/images/remove"
REMOVAL_PORT = 9466
REMOVAL_SUFFIX = "-images"
"""What the name of the Service of the image removers has in addition to that of the agents."""
MOST_IMAGES = 8
"""As many as one request names: the images of one pod."""


class ImageRemovalRequest(Document):
    """The images to remove from the node."""

    images: list[str] = Field(min_length=1, max_length=MOST_IMAGES)
    """As a pod names them: "registry.example.com/inferometer-serving:1.0"."""


class ImageRemovalAnswer(Document):
    """What was done: afterwards none of the images is on the node."""

    removed: list[str] = Field(default_factory=list)
    absent: list[str] = Field(default_factory=list)
    """Those that were not there before."""
