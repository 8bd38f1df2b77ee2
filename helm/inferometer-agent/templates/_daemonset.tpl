{{- /* The agents of the nodes with GPUs, or of the others: (list $ WITH-GPUS). */ -}}
{{- define "agent.daemonset" -}}
{{- $root := index . 0 -}}
{{- $withGpus := index . 1 -}}
{{- $values := $root.Values -}}
{{- $kind := ternary "gpu" "other" $withGpus -}}
{{- $folders := include "agent.hostFolders" $root | fromYamlArray -}}
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: {{ include "agent.fullname" $root }}{{ if $withGpus }}-gpu{{ end }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "agent.labels" $root | nindent 4 }}
spec:
  selector:
    matchLabels:
      {{- include "agent.selector" $root | nindent 6 }}
      inferometer.dev/nodes: {{ $kind }}
  updateStrategy:
    type: RollingUpdate
    rollingUpdate: {maxUnavailable: {{ $values.agent.maxUnavailable }}}
  template:
    metadata:
      labels:
        {{- include "agent.labels" $root | nindent 8 }}
        inferometer.dev/nodes: {{ $kind }}
      {{- $annotations := dict }}
      {{- if and $values.metrics.scrapeAnnotations (not $values.metrics.podMonitor.create) }}
      {{- $annotations = dict "prometheus.io/scrape" "true" "prometheus.io/port" (toString $values.agent.port) "prometheus.io/path" "/metrics" }}
      {{- end }}
      {{- $own := ternary $values.gpuNodes.podAnnotations dict $withGpus }}
      {{- with mergeOverwrite $annotations $values.agent.podAnnotations $own }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      serviceAccountName: {{ include "agent.serviceAccount" $root }}
      automountServiceAccountToken: false
      enableServiceLinks: false
      terminationGracePeriodSeconds: 10
      {{- with $values.agent.priorityClass }}
      priorityClassName: {{ . }}
      {{- end }}
      {{- if $withGpus }}
      {{- with $values.gpuNodes.runtimeClass }}
      runtimeClassName: {{ . }}
      {{- end }}
      hostPID: {{ $values.gpuNodes.hostPID }}
      {{- end }}
      {{- with $values.images.pullSecrets }}
      imagePullSecrets:
      {{- range . }}
      - name: {{ . }}
      {{- end }}
      {{- end }}
      securityContext:
        {{- if $values.sources.rapl }}
        # Root without a capability: only root may read the energy counters.
        runAsUser: 0
        runAsGroup: 0
        {{- else }}
        runAsNonRoot: true
        runAsUser: 10001
        runAsGroup: 10001
        {{- end }}
        seccompProfile: {type: RuntimeDefault}
      containers:
      - name: agent
        image: {{ include "agent.image" $root | quote }}
        imagePullPolicy: {{ $values.images.pullPolicy }}
        command: [python3, -m, inferometer_telemetry]
        args:
        # Every address, of IPv4 and IPv6.
        - --host=
        - --port={{ $values.agent.port }}
        - --interval-seconds={{ $values.intervalSeconds }}
        - --sys-root=/host/sys
        - --cgroup-root=/host/cgroup
        {{- if ($values.modelCache).enabled }}
        - --model-cache-statistics=/host/model-cache/statistics.json
        {{- end }}
        {{- range list "rapl" "nvml" "cgroup" "node" }}
        {{- if not (index $values.sources .) }}
        - --no-{{ . }}
        {{- end }}
        {{- end }}
        env:
        - name: NODE_NAME
          valueFrom: {fieldRef: {fieldPath: spec.nodeName}}
        {{- if $withGpus }}
        # NVIDIA's runtime: every GPU and the driver's management library, without CUDA.
        - {name: NVIDIA_VISIBLE_DEVICES, value: all}
        - {name: NVIDIA_DRIVER_CAPABILITIES, value: utility}
        {{- end }}
        ports:
        - {name: http, containerPort: {{ $values.agent.port }}}
        readinessProbe:
          httpGet: {path: /healthz, port: http}
          periodSeconds: 5
          timeoutSeconds: 5
        livenessProbe:
          httpGet: {path: /healthz, port: http}
          initialDelaySeconds: 10
          periodSeconds: 10
          timeoutSeconds: 10
          failureThreshold: 6
        resources:
          {{- toYaml $values.agent.resources | nindent 10 }}
        securityContext:
          allowPrivilegeEscalation: false
          capabilities: {drop: [ALL]}
          readOnlyRootFilesystem: true
        {{- with $folders }}
        volumeMounts:
        {{- range . }}
        - {name: {{ index . 0 }}, mountPath: {{ index . 2 | quote }}, readOnly: true, recursiveReadOnly: IfPossible}
        {{- end }}
        {{- end }}
      {{- with $folders }}
      volumes:
      {{- range . }}
      - name: {{ index . 0 }}
        hostPath: {path: {{ index . 1 | quote }}, type: {{ index . 3 }}}
      {{- end }}
      {{- end }}
      {{- with $values.agent.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      affinity:
        nodeAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            nodeSelectorTerms:
            - matchExpressions:
              - {key: kubernetes.io/os, operator: In, values: [linux]}
              {{- if $values.gpuNodes.create }}
              - key: {{ $values.gpuNodes.label.key }}
                operator: {{ ternary "In" "NotIn" $withGpus }}
                values: [{{ $values.gpuNodes.label.value | quote }}]
              {{- end }}
      {{- with $values.agent.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
{{- end -}}
