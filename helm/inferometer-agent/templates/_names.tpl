{{- /* What the chart's objects are called and labelled. */ -}}

{{- define "agent.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "agent.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "agent.fullname" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end -}}

{{- /* What every agent's pod has, on whatever node. */ -}}
{{- define "agent.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: agent
{{- end -}}

{{- define "agent.labels" -}}
{{ include "agent.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: inferometer
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end -}}

{{- define "agent.cacheSelector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: model-cache
{{- end -}}

{{- define "agent.gpuWeightsSelector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: gpu-weights
{{- end -}}

{{- define "agent.removalSelector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: image-removal
{{- end -}}

{{- define "agent.image" -}}
{{ include "agent.imageOf" (list . .Values.images.agent) }}
{{- end -}}

{{- define "agent.cacheImage" -}}
{{ include "agent.imageOf" (list . .Values.images.modelCache) }}
{{- end -}}

{{- define "agent.imageOf" -}}
{{- $root := index . 0 -}}
{{- $image := index . 1 -}}
{{- with $root.Values.images.registry }}{{ trimSuffix "/" . }}/{{ end -}}
{{- $image.repository -}}
{{- if $image.digest }}@{{ $image.digest }}
{{- else }}:{{ $image.tag | default $root.Values.images.tag | default $root.Chart.AppVersion }}
{{- end -}}
{{- end -}}
