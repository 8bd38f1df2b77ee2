"""What is to be done for a run, given what the cluster says? Pure decisions, one a file."""
