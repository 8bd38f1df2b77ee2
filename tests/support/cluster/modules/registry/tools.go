//go:build tools

// Package tools names the commands whose versions go.mod pins.
package tools

import (
	_ "github.com/distribution/distribution/v3/cmd/registry"
)
