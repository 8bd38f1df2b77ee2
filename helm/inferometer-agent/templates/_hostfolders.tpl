{{- /*
What an agent sees of its node: (NAME PATH MOUNT-PATH) of each folder, as a list in YAML. Never /sys or /proc as a
whole: a read-only mount of these leaves what is mounted within them (debugfs, binfmt_misc) writable.
CPU time and free memory are the node's in every pod's own /proc.
*/ -}}
{{- define "agent.hostFolders" -}}
{{- if or .Values.sources.rapl .Values.sources.node }}
- [sys-devices, /sys/devices, /host/sys/devices]
- [sys-class, /sys/class, /host/sys/class]
{{- end }}
{{- if .Values.sources.cgroup }}
{{- range $at, $controller := .Values.cgroupV1Controllers }}
- [cgroup-{{ $at }}, {{ printf "/sys/fs/cgroup/%s" $controller | quote }}, {{ printf "/host/cgroup/%s" $controller | quote }}]
{{- else }}
- [cgroup, /sys/fs/cgroup, /host/cgroup]
{{- end }}
{{- end }}
{{- end -}}
