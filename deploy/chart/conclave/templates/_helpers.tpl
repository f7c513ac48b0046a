{{- define "conclave.name" -}}
{{- if contains "conclave" .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-conclave" .Release.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "conclave.selector" -}}
app.kubernetes.io/name: conclave
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "conclave.labels" -}}
{{ include "conclave.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "conclave.config" -}}
{{- $name := include "conclave.name" . -}}
dataDir=/data
{{- if .Values.tls.secretName }}
secureClientPort=2281
ssl.keyStore.location=/tls/server.pem
ssl.trustStore.location=/tls/authorities.pem
sslQuorum=true
ssl.quorum.keyStore.location=/tls/server.pem
ssl.quorum.trustStore.location=/tls/authorities.pem
# Certificates have names of pods, not the addresses that they have for a while. What another
# server must have is the certificate of a host of the list below, by its name.
ssl.quorum.clientHostnameVerification=false
conclave.sslQuorumMembersOnly=true
{{- else }}
clientPort=2181
{{- end }}
admin.enableServer=true
admin.serverAddress=0.0.0.0
admin.serverPort=8080
{{- if .Values.metrics.enabled }}
metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider
metricsProvider.httpPort=7000
{{- end }}
{{- if .Values.tokens.secretName }}
conclave.adminTokenFile=/tokens/tokens
{{- if .Values.metrics.enabled }}
conclave.metricsTokenFile=/tokens/tokens
{{- end }}
{{- end }}
{{- range $key, $value := .Values.config }}
{{ $key }}={{ $value }}
{{- end }}
{{- range $i := until (int (add .Values.replicas .Values.observers)) }}
server.{{ add1 $i }}={{ $name }}-{{ $i }}.{{ $name }}-servers.{{ $.Release.Namespace }}.svc.{{ $.Values.clusterDomain }}:2888:3888{{ if ge $i (int $.Values.replicas) }}:observer{{ end }}
{{- end }}
# A server opens its ports on the pod's own address, whatever its name leads to at that time.
quorumListenOnAllIPs=true
{{- end }}
