"""What would stop a run, before it starts? Judgements are pure; `survey` alone asks the cluster."""
