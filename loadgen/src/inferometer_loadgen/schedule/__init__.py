"""Steps of a scenario, and the schedule of each step's queries. Pure."""
