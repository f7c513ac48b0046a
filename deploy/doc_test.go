// Package deploy has what installs Conclave: units for systemd, what packages for Debian and Red
// Hat hold, the Helm chart and the manifests that it makes, a file for Compose. There is no code
// here, but tests: `make packages-test` makes packages and installs them, runs the image, has a
// real API server of Kubernetes take the chart, and rehearses a rollout.
package deploy
