{{- define "drawbridge.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "drawbridge.schedulerImage" -}}
{{- $image := .Values.scheduler.image -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ $image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/*
The controller sets failurePolicy Fail on the guard once it can deny no pod by mistake, unless that of
pods.drawbridge.dev is Ignore. Helm applies on
the server, so another value would conflict with the controller or take its value back.
*/}}
{{- define "drawbridge.guardFailurePolicy" -}}
{{- $policy := "Ignore" -}}
{{- $live := lookup "admissionregistration.k8s.io/v1" "ValidatingWebhookConfiguration" "" "drawbridge" -}}
{{- range (dig "webhooks" (list) ($live | default dict)) -}}
{{- if eq .name "guard.drawbridge.dev" -}}{{- $policy = .failurePolicy -}}{{- end -}}
{{- end -}}
{{- eq .Values.admissionWebhooks.failurePolicy "Ignore" | ternary "Ignore" $policy -}}
{{- end -}}

{{/*
Fails if two listeners have one port. The argument has the ports by the names of their values.
*/}}
{{- define "drawbridge.distinctPorts" -}}
{{- $names := dict -}}
{{- range $name, $port := . -}}
{{- $text := int $port | toString -}}
{{- with get $names $text -}}
{{- fail (printf "%s and %s are both %s; set another port for one of them" . $name $text) -}}
{{- end -}}
{{- $_ := set $names $text $name -}}
{{- end -}}
{{- end -}}
