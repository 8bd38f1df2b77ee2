"""MLModelScope's model manifests, converted to ours."""
