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

{{/* Deployments that workers start and stop, as JSON: namespace → names. */}}
{{- define "doublebuffer.scaled" -}}
{{- $targets := .Values.worker.scaleTargets -}}
{{- range .Values.settings.backends }}{{ with .scale }}{{ $targets = append $targets . }}{{ end }}{{ end -}}
{{- $found := dict -}}
{{- range $targets | uniq -}}
{{- $parts := splitList "/" . -}}
{{- $namespace := eq (len $parts) 2 | ternary (first $parts) $.Release.Namespace -}}
{{- $_ := set $found $namespace (append (get $found $namespace | default list) (last $parts)) -}}
{{- end -}}
{{- toJson $found -}}
{{- end -}}

{{/* The port that traces go to. */}}
{{- define "doublebuffer.tracing.port" -}}
{{- $address := urlParse .Values.tracing.endpoint -}}
{{- regexFind "[0-9]+$" (regexFind ":[0-9]+$" $address.host) | default (eq $address.scheme "https" | ternary "443" "80") -}}
{{- end -}}

{{/* What the pods of gateways, workers and batch workers have in common: (list . "gateway"). */}}
{{- define "doublebuffer.pod" -}}
{{- $root := index . 0 -}}
{{- $part := index . 1 -}}
{{- $values := index $root.Values (eq $part "batch-worker" | ternary "batchWorker" $part) -}}
{{- /* A batch worker calls no engine either. */ -}}
{{- $settings := eq $part "worker" | ternary "worker" "gateway" -}}
{{- $scales := and (eq $part "worker") (ne (include "doublebuffer.scaled" $root) "{}") -}}
{{- $files := and $root.Values.files.enabled (ne $part "worker") -}}
metadata:
  labels:
    {{- include "doublebuffer.labels" . | nindent 4 }}
  annotations:
    checksum/settings: {{ include (printf "doublebuffer.%s.toml" $settings) $root | sha256sum }}
    {{- with $values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  {{- if $scales }}
  serviceAccountName: {{ include "doublebuffer.name" $root }}-worker
  {{- end }}
  automountServiceAccountToken: {{ $scales }}
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
          - key: {{ $settings }}.toml
            path: doublebuffer.toml
    - name: tmp
      emptyDir: {}
    {{- if $files }}
    - name: files
      persistentVolumeClaim:
        claimName: {{ $root.Values.files.existingClaim | default (printf "%s-files" (include "doublebuffer.name" $root)) }}
    {{- end }}
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
        {{- if $files }}
        - name: DOUBLEBUFFER_FILES
          value: /var/lib/doublebuffer
        {{- end }}
        {{- with $root.Values.tracing }}
        {{- if .endpoint }}
        - name: OTEL_EXPORTER_OTLP_ENDPOINT
          value: {{ .endpoint | quote }}
        {{- with .headersSecret }}
        {{- if .name }}
        - name: OTEL_EXPORTER_OTLP_HEADERS
          valueFrom:
            secretKeyRef:
              name: {{ .name }}
              key: {{ .key }}
        {{- end }}
        {{- end }}
        {{- if lt (float64 .ratio) 1.0 }}
        - name: OTEL_TRACES_SAMPLER
          value: parentbased_traceidratio
        - name: OTEL_TRACES_SAMPLER_ARG
          value: {{ .ratio | toString | quote }}
        {{- end }}
        {{- range $name, $value := .environment }}
        - name: {{ $name }}
          value: {{ $value | quote }}
        {{- end }}
        {{- end }}
        {{- end }}
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
        {{- if $files }}
        - name: files
          mountPath: /var/lib/doublebuffer
        {{- end }}
      securityContext:
        {{- include "doublebuffer.containerSecurity" . | nindent 8 }}
      resources:
        {{- toYaml $values.resources | nindent 8 }}
{{- end -}}
