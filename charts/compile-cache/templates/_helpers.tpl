{{/* The prefix of every name that no program looks up. */}}
{{- define "compilecache.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if not .Values.nameOverride -}}
compilecache
{{- else if contains .Values.nameOverride .Release.Name -}}
{{- .Release.Name -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end }}

{{- define "compilecache.serviceAccountName" -}}
{{- .Values.serviceAccount.name | default (printf "%s-operator" (include "compilecache.fullname" .)) -}}
{{- end }}

{{/* Labels of every object and of the pods. Nothing selects by them. */}}
{{- define "compilecache.labels" -}}
app.kubernetes.io/part-of: compilecache
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{/* compilecache.metadata (dict "root" $ ["labels" MAP] ["annotations" MAP]): an object's labels and annotations, with
everybody's. What the chart itself needs wins over what the values say. */}}
{{- define "compilecache.metadata" -}}
labels:
  {{- mergeOverwrite (dict) (.root.Values.commonLabels | default dict) (.labels | default dict) (include "compilecache.labels" .root | fromYaml) | toYaml | nindent 2 }}
{{- with mergeOverwrite (dict) (.root.Values.commonAnnotations | default dict) (.annotations | default dict) }}
annotations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* compilecache.reference (dict "image" IMAGE "tag" DEFAULT "root" $): what a container's `image:` says. */}}
{{- define "compilecache.reference" -}}
{{- $repository := .image.repository -}}
{{- with (.root.Values.global | default dict).imageRegistry -}}
{{- $repository = printf "%s/%s" (trimSuffix "/" .) (regexReplaceAll "^([^/]*[.:][^/]*|localhost)/" $repository "") -}}
{{- end -}}
{{- $repository -}}
{{- if .image.digest -}}
{{- with .image.tag }}:{{ . }}{{ end }}@{{ .image.digest }}
{{- else -}}
:{{ .image.tag | default .tag }}
{{- end -}}
{{- end }}

{{- define "compilecache.image" -}}
{{- include "compilecache.reference" (dict "image" .Values.image "tag" .Chart.AppVersion "root" .) -}}
{{- end }}

{{/* What loader, saver and Jobs run; the policy that confines the Jobs allows no other. */}}
{{- define "compilecache.agentImage" -}}
{{- (.Values.settings | default dict).agentImage | default (include "compilecache.image" .) -}}
{{- end }}

{{/* The operator's settings: the file as it is, with its comments, or merged with what the values change. */}}
{{- define "compilecache.settings" -}}
{{- $file := .Files.Get "files/settings.yaml" -}}
{{- $changes := deepCopy (.Values.settings | default dict) -}}
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
serve.sh: |
  {{- .Files.Get "files/registry/serve.sh" | trimSuffix "\n" | nindent 2 }}
{{- end }}

{{/* compilecache.registryAffinity (dict "reader" WHETHER "root" $): both of its pods on one node, and what people set. */}}
{{- define "compilecache.registryAffinity" -}}
{{- $given := .root.Values.registry.affinity | default dict -}}
{{- if .reader -}}
{{- mergeOverwrite (dict) $given (include "compilecache.besideRegistry" . | fromYaml) | toYaml -}}
{{- else -}}
{{- merge (dict) $given (include "compilecache.besideReader" . | fromYaml) | toYaml -}}
{{- end -}}
{{- end }}

{{- define "compilecache.besideRegistry" -}}
podAffinity:
  requiredDuringSchedulingIgnoredDuringExecution:
  - topologyKey: kubernetes.io/hostname
    labelSelector:
      matchLabels: {app.kubernetes.io/name: compilecache-registry}
      matchExpressions:
      - {key: app.kubernetes.io/component, operator: NotIn, values: [reader]}
{{- end }}

{{- define "compilecache.besideReader" -}}
podAffinity:
  preferredDuringSchedulingIgnoredDuringExecution:
  - weight: 100
    podAffinityTerm:
      topologyKey: kubernetes.io/hostname
      labelSelector:
        matchLabels: {app.kubernetes.io/name: compilecache-registry, app.kubernetes.io/component: reader}
{{- end }}

{{- define "compilecache.pullSecrets" -}}
{{- with concat (.Values.imagePullSecrets | default list) ((.Values.global | default dict).imagePullSecrets | default list) }}
imagePullSecrets: {{- toYaml . | nindent 0 }}
{{- end }}
{{- end }}

{{/* compilecache.placement (dict "of" VALUES "root" $ ["dnsPolicy" DEFAULT]): where pods go, and what else of a pod's spec
people set. */}}
{{- define "compilecache.placement" -}}
{{- include "compilecache.pullSecrets" .root }}
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
{{- with .of.dnsPolicy | default .dnsPolicy }}
dnsPolicy: {{ . }}
{{- end }}
{{- with .of.dnsConfig }}
dnsConfig: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .of.hostAliases }}
hostAliases: {{- toYaml . | nindent 0 }}
{{- end }}
{{- end }}

{{/* What cert-manager signs the serving certificates by. */}}
{{- define "compilecache.issuerRef" -}}
{{- .Values.certManager.issuerRef | default (dict "name" "compilecache-authority" "kind" "Issuer") | toYaml -}}
{{- end }}

{{/* Rules that concern several values, which the schema cannot express. */}}
{{- define "compilecache.checkValues" -}}
{{- if and (not .Values.serviceAccount.create) (not .Values.serviceAccount.name) -}}
{{- fail "serviceAccount.name: name the ServiceAccount to use, or set serviceAccount.create" -}}
{{- end -}}
{{- if and .Values.monitoring.enabled .Values.metricsAccess.enabled (eq .Values.monitoring.kind "PodMonitor") -}}
{{- fail "monitoring.kind: a PodMonitor cannot present the token that metricsAccess.enabled asks for; use ServiceMonitor" -}}
{{- end -}}
{{- if .Chart.IsRoot -}}
{{- range $key, $_ := omit (.Values.global | default dict) "imageRegistry" "imagePullSecrets" -}}
{{- fail (printf "global.%s: unknown value; other keys of global are accepted from a parent chart only" $key) -}}
{{- end -}}
{{- end -}}
{{- if (ne (len (uniq (list (int .Values.webhook.port) (int .Values.operator.agentPort) (int .Values.operator.plainPort)))) 3) -}}
{{- fail "webhook.port, operator.agentPort and operator.plainPort must differ" -}}
{{- end -}}
{{- end }}
