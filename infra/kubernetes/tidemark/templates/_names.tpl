{{- define "tidemark.name" -}}
{{- printf "%s-%s" .root.Release.Name .part | trunc 52 | trimSuffix "-" -}}
{{- end -}}

{{- define "tidemark.match" -}}
app.kubernetes.io/name: tidemark
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .part }}
{{- end -}}

{{- define "tidemark.labels" -}}
{{ include "tidemark.match" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end -}}

{{- define "tidemark.claim" -}}
{{- .Values.home.existingClaim | default (printf "%s-home" .Release.Name) -}}
{{- end -}}

{{/* Where Spark runs for a part: its own driver's master, or the server of Spark Connect that all parts share. */}}
{{- define "tidemark.master" -}}
{{- if and .root.Values.connect.enabled (ne .part "connect") -}}
sc://{{ include "tidemark.name" (dict "root" .root "part" "connect") }}:15002
{{- else -}}
{{ .root.Values.spark.master }}
{{- end -}}
{{- end -}}

{{/* Whether a part asks the cluster's API for executors. */}}
{{- define "tidemark.asks" -}}
{{- if hasPrefix "k8s://" (include "tidemark.master" .) }}true{{ end -}}
{{- end -}}

{{/* Whether pods that start Spark ask the cluster's API for executors. */}}
{{- define "tidemark.executors" -}}
{{- if hasPrefix "k8s://" .Values.spark.master }}true{{ end -}}
{{- end -}}

{{/* A user without rights. */}}
{{- define "tidemark.user" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "tidemark.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{/* On a root file system that cannot be written. */}}
{{- define "tidemark.confined" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{/* What every pod is; with `driver`, one that starts Spark. */}}
{{- define "tidemark.pod" -}}
{{- if and .driver (include "tidemark.asks" .) -}}
serviceAccountName: {{ include "tidemark.name" (dict "root" .root "part" "driver") }}
automountServiceAccountToken: true
{{- else -}}
automountServiceAccountToken: false
{{- end }}
enableServiceLinks: false
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
securityContext: {{- include "tidemark.user" .root | nindent 2 }}
volumes:
  - name: lake
    persistentVolumeClaim: {claimName: {{ include "tidemark.claim" .root }}}
  - name: config
    configMap:
      name: {{ include "tidemark.name" (dict "root" .root "part" "config") }}
      items:
        - {key: tidemark.toml, path: tidemark.toml}
        {{- if and .driver (include "tidemark.asks" .) }}
        - {key: executor.yaml, path: executor.yaml}
        {{- end }}
        {{- range $name, $_ := .root.Values.queries }}
        - {key: {{ $name }}, path: queries/{{ $name }}}
        {{- end }}
        {{- range $name, $_ := .root.Values.predicates }}
        - {key: {{ $name }}, path: predicates/{{ $name }}}
        {{- end }}
  - name: scratch
    emptyDir: {}
{{- end -}}

{{- define "tidemark.container" -}}
image: {{ include "tidemark.image" .root | quote }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
securityContext: {{- include "tidemark.confined" .root | nindent 2 }}
env:
  - {name: TIDEMARK_CONFIG, value: /etc/tidemark/tidemark.toml}
  - {name: TIDEMARK_HOME, value: /lake/var}
  - {name: TIDEMARK_LOG, value: json}
  - {name: HOME, value: /scratch}
  - {name: TMPDIR, value: /scratch}
  - {name: TIDEMARK_SPARK__MASTER, value: {{ include "tidemark.master" . | quote }}}
  - {name: TIDEMARK_SPARK__DRIVER_MEMORY, value: {{ .root.Values.spark.driverMemory | quote }}}
  {{- $options := .root.Values.spark.options }}
  {{- if not (or (hasPrefix "local" (include "tidemark.master" .)) (hasPrefix "sc://" (include "tidemark.master" .))) }}
  - name: POD_IP
    valueFrom: {fieldRef: {fieldPath: status.podIP}}
  {{- $own := dict "spark.driver.host" "$(POD_IP)" "spark.driver.bindAddress" "0.0.0.0" }}
  {{- $own = set $own "spark.driver.port" (toString .root.Values.spark.driverPort) }}
  {{- $own = set $own "spark.driver.blockManager.port" (toString .root.Values.spark.blockManagerPort) }}
  {{- if include "tidemark.asks" . }}
  - name: POD_NAME
    valueFrom: {fieldRef: {fieldPath: metadata.name}}
  {{- $own = set $own "spark.kubernetes.namespace" .root.Release.Namespace }}
  {{- $own = set $own "spark.kubernetes.container.image" (include "tidemark.image" .root) }}
  {{- $own = set $own "spark.kubernetes.executor.podTemplateFile" "/etc/tidemark/executor.yaml" }}
  {{- /* Executors end with the pod that asked for them. */}}
  {{- $own = set $own "spark.kubernetes.driver.pod.name" "$(POD_NAME)" }}
  {{- $own = set $own "spark.blockManager.port" (toString .root.Values.spark.blockManagerPort) }}
  {{- $own = set $own "spark.pyspark.python" "/opt/tidemark/.venv/bin/python" }}
  {{- end }}
  {{- $options = merge (deepCopy $options) $own }}
  {{- end }}
  - {name: TIDEMARK_SPARK__OPTIONS, value: {{ $options | toJson | quote }}}
{{- with .root.Values.secrets }}
envFrom:
  {{- range . }}
  - secretRef: {name: {{ . }}}
  {{- end }}
{{- end }}
volumeMounts:
  - {name: lake, mountPath: /lake}
  - {name: config, mountPath: /etc/tidemark, readOnly: true}
  - {name: scratch, mountPath: /scratch}
{{- end -}}
