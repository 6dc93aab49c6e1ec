{{/* compilecache.testJob (dict "root" $ "name" NAME "weight" N "script" TEXT ["mode" MODE]): a Job with one annotated pod. */}}
{{- define "compilecache.testJob" }}
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}-test
  {{- include "compilecache.metadata" (dict "root" .root "annotations" (dict "helm.sh/hook" "test" "helm.sh/hook-weight" (.weight | toString))) | nindent 2 }}
spec:
  # The next pod comes after 10 s, 20 s, 40 s.
  backoffLimit: 4
  activeDeadlineSeconds: 240
  template:
    metadata:
      annotations:
        compilecache.dev/cache: helm-test
        {{- with .mode }}
        compilecache.dev/mode: {{ . }}
        {{- end }}
    spec:
      restartPolicy: Never
      automountServiceAccountToken: false
      securityContext:
        runAsNonRoot: true
        seccompProfile: {type: RuntimeDefault}
      {{- with include "compilecache.pullSecrets" .root | trim }}
      {{- . | nindent 6 }}
      {{- end }}
      containers:
      - name: app
        image: {{ include "compilecache.image" .root }}
        imagePullPolicy: {{ .root.Values.image.pullPolicy }}
        command: [sh, -euc]
        args:
        - |
          {{- .script | trimSuffix "\n" | nindent 10 }}
        resources:
          requests: {cpu: 10m, memory: 16Mi}
          limits: {memory: 64Mi}
        securityContext:
          allowPrivilegeEscalation: false
          readOnlyRootFilesystem: true
          capabilities: {drop: [ALL]}
      {{- with .root.Values.operator.nodeSelector }}
      nodeSelector: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .root.Values.operator.tolerations }}
      tolerations: {{- toYaml . | nindent 6 }}
      {{- end }}
{{- end }}
