"""`gandy trace`: sends jobs and their attempts to an OpenTelemetry collector, as spans of traces."""
