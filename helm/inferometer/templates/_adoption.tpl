{{- /*
Objects that this release would install, and that are in the cluster by another hand: lines of "KIND NAME RELEASE
NAMESPACE", the last two are - without Helm. They are kept when their release goes, so that the next one finds them.
*/ -}}
{{- define "inferometer.foreign" -}}
{{- $kept := list (list "apiextensions.k8s.io/v1" "CustomResourceDefinition" "benchmarkruns.inferometer.dev") -}}
{{- $kept = append $kept (list "apiextensions.k8s.io/v1" "CustomResourceDefinition" "benchmarksuites.inferometer.dev") -}}
{{- $kept = append $kept (list "apiextensions.k8s.io/v1" "CustomResourceDefinition" "nodebenchmarks.inferometer.dev") -}}
{{- if .Values.crds.userRoles -}}
{{- range list "admin" "edit" "view" -}}
{{- $kept = append $kept (list "rbac.authorization.k8s.io/v1" "ClusterRole" (printf "inferometer-%s" .)) -}}
{{- end -}}
{{- end -}}
{{- range $kept -}}
{{- $name := index . 2 -}}
{{- $kind := index . 1 -}}
{{- with lookup (index . 0) $kind "" $name -}}
{{- $annotations := .metadata.annotations | default dict -}}
{{- $release := get $annotations "meta.helm.sh/release-name" -}}
{{- $namespace := get $annotations "meta.helm.sh/release-namespace" -}}
{{- if or (ne $release $.Release.Name) (ne $namespace $.Release.Namespace) }}
{{ $kind }} {{ $name }} {{ $release | default "-" }} {{ $namespace | default "-" }}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
