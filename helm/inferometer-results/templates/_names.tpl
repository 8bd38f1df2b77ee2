{{- /* What the chart's objects are called and labelled. */ -}}

{{- define "results.fullname" -}}
{{- .Values.fullnameOverride | default .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "results.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (include "results.fullname" .) -}}
{{- end -}}

{{- define "results.host" -}}
{{- include "results.fullname" . }}.{{ .Release.Namespace }}.svc
{{- end -}}

{{- define "results.tlsSecret" -}}
{{- .Values.tls.existingSecret | default (printf "%s-tls" (include "results.fullname" .)) -}}
{{- end -}}

{{- define "results.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: results
{{- end -}}

{{- define "results.labels" -}}
{{ include "results.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: inferometer
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end -}}

{{- define "results.image" -}}
{{- $image := .Values.images.results -}}
{{- with .Values.images.registry }}{{ trimSuffix "/" . }}/{{ end -}}
{{- $image.repository -}}
{{- if $image.digest }}@{{ $image.digest }}
{{- else }}:{{ $image.tag | default .Values.images.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "results.usesSqlite" -}}
{{- if not .Values.database.secret.name }}true{{ end -}}
{{- end -}}
