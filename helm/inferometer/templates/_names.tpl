{{- /* What the chart's objects are called and labelled. */ -}}

{{- define "inferometer.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "inferometer.operator" -}}
{{- include "inferometer.fullname" . }}-operator
{{- end -}}

{{- define "inferometer.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "inferometer.operator" .) -}}
{{- else -}}
{{- required "serviceAccount.create is false: name the account that exists in serviceAccount.name" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- /* The one namespace that is served; empty with mode Cluster. */ -}}
{{- define "inferometer.servedNamespace" -}}
{{- if eq .Values.mode "Namespaced" -}}
{{- .Values.watchNamespace | default .Release.Namespace -}}
{{- else if .Values.watchNamespace -}}
{{- fail (printf "watchNamespace is %q, but with mode Cluster every namespace is served: leave watchNamespace empty, or set mode to Namespaced" .Values.watchNamespace) -}}
{{- end -}}
{{- end -}}

{{- /* Where the Lease is. One per served namespace, so that of two releases that serve it one leads. */ -}}
{{- define "inferometer.leaseNamespace" -}}
{{- include "inferometer.aServedNamespace" . -}}
{{- end -}}

{{- /* A namespace that is served, for `helm test` and NOTES. */ -}}
{{- define "inferometer.aServedNamespace" -}}
{{- include "inferometer.servedNamespace" . | default .Release.Namespace -}}
{{- end -}}

{{- define "inferometer.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: operator
{{- end -}}

{{- define "inferometer.labels" -}}
{{ include "inferometer.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: inferometer
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end -}}

{{- /* The same, with labels of the user's: (list $ LABELS). */ -}}
{{- define "inferometer.labelsWith" -}}
{{- mergeOverwrite (include "inferometer.labels" (index . 0) | fromYaml) (index . 1) | toYaml -}}
{{- end -}}

{{- /* The full name of an image: (list $ "serving"). */ -}}
{{- define "inferometer.image" -}}
{{- $images := (index . 0).Values.images -}}
{{- $image := index $images (index . 1) -}}
{{- with $images.registry }}{{ trimSuffix "/" . }}/{{ end -}}
{{- $image.repository -}}
{{- if $image.digest }}@{{ $image.digest }}
{{- else }}:{{ $image.tag | default $images.tag | default (index . 0).Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- /* What every container of ours has, so that pods meet Pod Security's level "restricted". */ -}}
{{- define "inferometer.containerSecurity" -}}
allowPrivilegeEscalation: false
capabilities: {drop: [ALL]}
readOnlyRootFilesystem: true
{{- end -}}

{{- define "inferometer.podSecurity" -}}
runAsNonRoot: true
{{- if ne (toString .Values.fixedUser) "false" }}
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
{{- end }}
seccompProfile: {type: RuntimeDefault}
{{- end -}}
