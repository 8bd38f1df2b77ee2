{{- /* What the operator may do where runs are: inferometer_api.plan.rights says the same, and why. */ -}}
{{- define "inferometer.runRules" -}}
- apiGroups: [inferometer.dev]
  resources: [benchmarkruns]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [inferometer.dev]
  resources: [benchmarksuites]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [inferometer.dev]
  resources: [benchmarksuites/status]
  verbs: [patch]
- apiGroups: [inferometer.dev]
  resources: [nodebenchmarks]
  verbs: [get, list, watch, delete]
- apiGroups: [inferometer.dev]
  resources: [nodebenchmarks/status]
  verbs: [patch]
- apiGroups: [inferometer.dev]
  resources: [benchmarkruns/status]
  verbs: [patch]
- apiGroups: [batch]
  resources: [jobs]
  verbs: [get, list, watch, create, delete]
- apiGroups: [apps]
  resources: [deployments]
  verbs: [get, list, delete]
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, list, watch, create, delete]
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch]
- apiGroups: [""]
  resources: [pods/log]
  verbs: [get]
- apiGroups: [""]
  resources: [events]
  verbs: [list, create]
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [get]
- apiGroups: [""]
  resources: [services]
  verbs: [get, list, watch, create, delete]
- apiGroups: [discovery.k8s.io]
  resources: [endpointslices]
  verbs: [list]
{{- if .Values.allowSecrets }}
- apiGroups: [""]
  resources: [secrets]
  verbs: [get]
{{- end }}
{{- if (.Values.kueue).enabled }}
- apiGroups: [kueue.x-k8s.io]
  resources: [workloads]
  verbs: [get, list, watch, create, delete]
- apiGroups: [kueue.x-k8s.io]
  resources: [workloads/status]
  verbs: [patch]
{{- end }}
{{- if (.Values.kserve).enabled }}
- apiGroups: [serving.kserve.io]
  resources: [inferenceservices]
  verbs: [get, list, watch, create, delete]
- apiGroups: [apps]
  resources: [replicasets]
  verbs: [get]
{{- end }}
{{- end -}}

{{- /* What it may do in the whole cluster, if Kueue admits runs: these objects have no namespace. */ -}}
{{- define "inferometer.kueueRules" -}}
- apiGroups: [kueue.x-k8s.io]
  resources: [resourceflavors, workloadpriorityclasses]
  verbs: [get]
{{- end -}}

{{- /* What it may do in the whole cluster, if suites choose their nodes, or nodes are measured. */ -}}
{{- define "inferometer.nodeRules" -}}
- apiGroups: [""]
  resources: [nodes]
  verbs: [list]
{{- end -}}

{{- /* What it may do in addition where it serves every namespace. */ -}}
{{- define "inferometer.otherOperatorRules" -}}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [inferometer-operator]
  verbs: [get]
{{- end -}}

{{- /* What it may do in the namespace of its Lease. */ -}}
{{- define "inferometer.leaseRules" -}}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [inferometer-operator]
  verbs: [get, update]
{{- end -}}
