//go:build tools

// Package tools names the commands whose versions go.mod pins.
package tools

import (
	_ "sigs.k8s.io/kueue/cmd/kueue"
)
