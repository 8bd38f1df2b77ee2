{{- /*
What an agent sees of its node: (NAME PATH MOUNT-PATH TYPE) of each folder, as a list in YAML. Never /sys or /proc as a
whole: a read-only mount of these leaves what is mounted within them (debugfs, binfmt_misc) writable.
CPU time and free memory are the node's in every pod's own /proc.
*/ -}}
{{- define "agent.hostFolders" -}}
{{- if or .Values.sources.rapl .Values.sources.node }}
- [sys-devices, /sys/devices, /host/sys/devices, Directory]
- [sys-class, /sys/class, /host/sys/class, Directory]
{{- end }}
{{- if .Values.sources.cgroup }}
{{- range $at, $controller := .Values.cgroupV1Controllers }}
- [cgroup-{{ $at }}, {{ printf "/sys/fs/cgroup/%s" $controller | quote }}, {{ printf "/host/cgroup/%s" $controller | quote }}, Directory]
{{- else }}
- [cgroup, /sys/fs/cgroup, /host/cgroup, Directory]
{{- end }}
{{- end }}
{{- if (.Values.modelCache).enabled }}
- [model-cache, {{ printf "%s/statistics" (trimSuffix "/" .Values.modelCache.folder) | quote }}, /host/model-cache, DirectoryOrCreate]
{{- end }}
{{- end -}}
