"""How a run is carried out: command lines, plans, reports and cluster objects."""
