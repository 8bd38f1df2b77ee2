// Command decode reads a configuration of kind's from standard input as kind itself does, and
// writes what it understood, with kind's defaults, as YAML.
package main

import (
	"fmt"
	"os"

	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"
)

func main() {
	if err := decode(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func decode() error {
	decoder := yaml.NewDecoder(os.Stdin)
	// kind refuses a field that it does not know, and so does this.
	decoder.KnownFields(true)
	var cluster v1alpha4.Cluster
	if err := decoder.Decode(&cluster); err != nil {
		return err
	}
	if cluster.APIVersion != "kind.x-k8s.io/v1alpha4" || cluster.Kind != "Cluster" {
		return fmt.Errorf("a Cluster of kind.x-k8s.io/v1alpha4 was expected, not %q of %q",
			cluster.Kind, cluster.APIVersion)
	}
	v1alpha4.SetDefaultsCluster(&cluster)
	return yaml.NewEncoder(os.Stdout).Encode(&cluster)
}
