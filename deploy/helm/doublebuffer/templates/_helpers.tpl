{{- define "doublebuffer.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{ .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" }}
{{- end -}}
{{- end -}}

{{/* (list . "gateway") */}}
{{- define "doublebuffer.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ $root.Chart.Name }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{- define "doublebuffer.labels" -}}
{{- $root := index . 0 -}}
{{ include "doublebuffer.selector" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version }}
{{- end -}}

{{/* A value as TOML has it. Strings of JSON are strings of TOML, and so are its numbers, true and false. */}}
{{- define "doublebuffer.toml.value" -}}
{{- if kindIs "map" . -}}
{ {{- range $number, $key := keys . | sortAlpha }}{{ if $number }}, {{ end }}{{ toJson $key }} = {{ include "doublebuffer.toml.value" (get $ $key) }}{{ end -}} }
{{- else if kindIs "slice" . -}}
[{{ range $number, $value := . }}{{ if $number }}, {{ end }}{{ include "doublebuffer.toml.value" $value }}{{ end }}]
{{- else -}}
{{ toJson . }}
{{- end -}}
{{- end -}}

{{- define "doublebuffer.toml" -}}
{{- range $key, $value := . }}
{{- if not (kindIs "invalid" $value) }}
{{ $key }} = {{ include "doublebuffer.toml.value" $value }}
{{- end }}
{{- end }}
{{- end -}}

{{/* A gateway has no business with the keys of back ends, */}}
{{- define "doublebuffer.gateway.toml" -}}
{{- $backends := list -}}
{{- range .Values.settings.backends }}{{ $backends = append $backends (omit . "api_key") }}{{ end -}}
{{- include "doublebuffer.toml" (merge (dict "backends" $backends "drain_seconds" .Values.drainSeconds) .Values.settings) | trim -}}
{{- end -}}

{{/* nor a worker with those of clients. */}}
{{- define "doublebuffer.worker.toml" -}}
{{- include "doublebuffer.toml" (merge (dict "drain_seconds" .Values.drainSeconds) (omit .Values.settings "keys")) | trim -}}
{{- end -}}

{{- define "doublebuffer.settingsSecret" -}}
{{ .Values.settingsSecret | default (printf "%s-settings" (include "doublebuffer.name" .)) }}
{{- end -}}

{{- define "doublebuffer.redisSecret" -}}
{{ .Values.redis.urlSecret.name | default (printf "%s-redis" (include "doublebuffer.name" .)) }}
{{- end -}}

{{- define "doublebuffer.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{- define "doublebuffer.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "doublebuffer.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* What the pods of gateways and workers have in common: (list . "gateway"). */}}
{{- define "doublebuffer.pod" -}}
{{- $root := index . 0 -}}
{{- $part := index . 1 -}}
{{- $values := index $root.Values $part -}}
metadata:
  labels:
    {{- include "doublebuffer.labels" . | nindent 4 }}
  annotations:
    checksum/settings: {{ include (printf "doublebuffer.%s.toml" $part) $root | sha256sum }}
    {{- with $values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  automountServiceAccountToken: false
  # Kubernetes' variables for the Service of a release named doublebuffer would be taken for settings.
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ add $root.Values.drainSeconds 25 }}
  securityContext:
    {{- include "doublebuffer.podSecurity" . | nindent 4 }}
  {{- with $root.Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "doublebuffer.selector" . | nindent 10 }}
  volumes:
    - name: settings
      secret:
        secretName: {{ include "doublebuffer.settingsSecret" $root }}
        items:
          - key: {{ $part }}.toml
            path: doublebuffer.toml
    - name: tmp
      emptyDir: {}
  containers:
    - name: {{ $part }}
      image: {{ include "doublebuffer.image" $root | quote }}
      imagePullPolicy: {{ $root.Values.image.pullPolicy }}
      args: [{{ $part }}]
      env:
        - name: REDIS_URL
          valueFrom:
            secretKeyRef:
              name: {{ include "doublebuffer.redisSecret" $root }}
              key: {{ $root.Values.redis.urlSecret.key }}
        - name: DOUBLEBUFFER_CONFIG
          value: /etc/doublebuffer/doublebuffer.toml
        - name: DOUBLEBUFFER_HOST
          value: 0.0.0.0
        - name: {{ eq $part "gateway" | ternary "DOUBLEBUFFER_PORT" "DOUBLEBUFFER_METRICS_PORT" }}
          value: {{ eq $part "gateway" | ternary "11435" "11436" | quote }}
      ports:
        - name: {{ eq $part "gateway" | ternary "http" "metrics" }}
          containerPort: {{ eq $part "gateway" | ternary 11435 11436 }}
      volumeMounts:
        - name: settings
          mountPath: /etc/doublebuffer
          readOnly: true
        - name: tmp
          mountPath: /tmp
      securityContext:
        {{- include "doublebuffer.containerSecurity" . | nindent 8 }}
      resources:
        {{- toYaml $values.resources | nindent 8 }}
{{- end -}}
