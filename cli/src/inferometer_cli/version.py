"""Which version of Inferometer is this?"""

from importlib.metadata import version

VERSION = version("inferometer")
