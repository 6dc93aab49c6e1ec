{{/* Labels of every object. Nothing selects by them. */}}
{{- define "compilecache.labels" -}}
app.kubernetes.io/part-of: compilecache
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* compilecache.reference (dict "image" IMAGE "tag" DEFAULT): what a container's `image:` says. */}}
{{- define "compilecache.reference" -}}
{{- .image.repository -}}
{{- if .image.digest -}}
{{- with .image.tag }}:{{ . }}{{ end }}@{{ .image.digest }}
{{- else -}}
:{{ .image.tag | default .tag }}
{{- end -}}
{{- end }}

{{- define "compilecache.image" -}}
{{- include "compilecache.reference" (dict "image" .Values.image "tag" .Chart.AppVersion) -}}
{{- end }}

{{/* What loader, saver and Jobs run; the policy that confines the Jobs allows no other. */}}
{{- define "compilecache.agentImage" -}}
{{- .Values.settings.agentImage | default (include "compilecache.image" .) -}}
{{- end }}

{{/* The operator's settings: the file as it is, with its comments, or merged with what the values change. */}}
{{- define "compilecache.settings" -}}
{{- $file := .Files.Get "files/settings.yaml" -}}
{{- $changes := deepCopy .Values.settings -}}
{{- with .Values.frameworks }}{{ $_ := set $changes "frameworks" . }}{{ end -}}
{{- if $changes -}}
{{- mustMergeOverwrite (fromYaml $file) $changes | toYaml -}}
{{- else -}}
{{- $file | trimSuffix "\n" -}}
{{- end -}}
{{- end }}

{{/* The registry's configuration, as the data of a ConfigMap. */}}
{{- define "compilecache.registryConfig" -}}
config.yml: |
  {{- .Files.Get "files/registry/config.yml" | replace "compilecache-system" .Release.Namespace | trimSuffix "\n" | nindent 2 }}
collect.sh: |
  {{- .Files.Get "files/registry/collect.sh" | trimSuffix "\n" | nindent 2 }}
{{- end }}

{{/* compilecache.placement (dict "of" VALUES "root" $): where pods go, and what else of a pod's spec people set. */}}
{{- define "compilecache.placement" -}}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 0 }}
{{- end }}
{{- with .of.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .of.tolerations }}
tolerations: {{- toYaml . | nindent 0 }}
{{- end }}
{{- with .of.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .of.topologySpreadConstraints }}
topologySpreadConstraints: {{- toYaml . | nindent 0 }}
{{- end }}
{{- with .of.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end }}

{{/* What cert-manager signs the serving certificates by. */}}
{{- define "compilecache.issuerRef" -}}
{{- .Values.certManager.issuerRef | default (dict "name" "compilecache-authority" "kind" "Issuer") | toYaml -}}
{{- end }}
