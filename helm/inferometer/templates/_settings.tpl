{{- /*
What the operator reads at its start: inferometer_operator.settings.Settings. What is in parentheses is
missing from the values of a release that had none of it, where these are used again.
*/ -}}
{{- define "inferometer.settings" -}}
{{- with include "inferometer.servedNamespace" . -}}
namespace: {{ . }}
{{ end -}}
maxConcurrentRuns: {{ .Values.maxConcurrentRuns }}
{{- $ceilings := dict -}}
{{- range $name, $most := .Values.ceilings | default dict }}
{{- /* 0 GPUs is a ceiling: it forbids them. 0 of anything else is none. */ -}}
{{- if or $most (and (eq $name "gpus") (not (kindIs "string" $most)) (not (kindIs "invalid" $most))) }}{{ $_ := set $ceilings $name $most }}{{ end }}
{{- end }}
ceilings: {{ toJson $ceilings }}
images:
  serving: {{ include "inferometer.image" (list . "serving") | quote }}
  servingGpu: {{ include "inferometer.image" (list . "servingGpu") | quote }}
  loadgen: {{ include "inferometer.image" (list . "loadgen") | quote }}
  servers: {{ toJson (.Values.images.servers | default dict) }}
  engines:
    {{- $ours := .Files.Get "files/engines.yaml" | fromYaml }}
    {{- range $name := list "serving" "servingGpu" }}
    {{- $image := index $.Values.images $name }}
    {{- /* A tag or digest of one's own may be an image with other versions. */ -}}
    {{- $isOurs := not (or $image.tag $image.digest $.Values.images.tag) }}
    {{ $name }}: {{ toJson ($image.engines | default (ternary (index $ours $name) dict $isOurs)) }}
    {{- end }}
    {{- $others := .Values.images.serverEngines | default dict }}
    {{- range $name, $versions := omit $ours "serving" "servingGpu" }}
    {{- if not (hasKey ($.Values.images.servers | default dict) $name) }}
    {{- $others = merge (dict) $others (dict $name $versions) }}
    {{- end }}
    {{- end }}
    {{- range $name, $versions := $others }}
    {{ $name }}: {{ toJson $versions }}
    {{- end }}
  pullPolicy: {{ .Values.images.pullPolicy }}
  pullSecrets: {{ toJson .Values.images.pullSecrets }}
gpu:
  {{- with .Values.gpu.runtimeClass }}
  runtimeClass: {{ . | quote }}
  {{- end }}
  tolerations: {{ toJson .Values.gpu.tolerations }}
load:
  resources: {{ toJson .Values.load.resources }}
  nodeSelector: {{ toJson .Values.load.nodeSelector }}
  tolerations: {{ toJson .Values.load.tolerations }}
{{- with .Values.runPriorityClass }}
priorityClass: {{ . | quote }}
{{- end }}
fixedUser: {{ ne (toString .Values.fixedUser) "false" }}
externalAllowList: {{ toJson .Values.externalAllowList }}
allowedServers: {{ toJson (.Values.allowedServers | default dict) }}
allowSecrets: {{ .Values.allowSecrets }}
readNodes: {{ .Values.readNodes | default false }}
kueue: {enabled: {{ (.Values.kueue).enabled | default false }}}
modelCache: {{ (.Values.modelCache).enabled | default false }}
kserve: {enabled: {{ (.Values.kserve).enabled | default false }}}
modelStorage: {{ .Values.modelStorage | quote }}
{{- with (.Values.agent).namespace }}
agent:
  namespace: {{ . }}
  service: {{ $.Values.agent.service }}
  {{- if $.Values.agent.imageRemoval }}
  imageRemovalTokenFile: /etc/inferometer-images-token/token
  {{- end }}
{{- end }}
{{- with .Values.results }}
{{- if .url }}
results:
  url: {{ .url | quote }}
  {{- with .authorityConfigMap }}
  authorityFile: /etc/inferometer-results/ca.crt
  {{- end }}
  tokenFile: /etc/inferometer-results-token/token
  {{- with .webUrl }}
  webUrl: {{ . | quote }}
  {{- end }}
{{- end }}
{{- end }}
metrics: {scrapeAnnotations: {{ and .Values.metrics.scrapeAnnotations (not (.Values.metrics.podMonitor).create) | default false }}
  {{- if (.Values.metrics.tokenSecret).name }}, tokenFile: /etc/inferometer-metrics/token{{ end }}}
{{- end -}}
