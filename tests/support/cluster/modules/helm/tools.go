//go:build tools

// Package tools names the commands whose versions go.mod pins.
package tools

import (
	_ "helm.sh/helm/v3/cmd/helm"
)
