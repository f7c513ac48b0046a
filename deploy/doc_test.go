// Package deploy contains what installs Conclave: units for systemd, the contents of packages for
// Debian and Red Hat, the Helm chart and the manifests made from it, and a file for Compose. The
// only code here is tests: `make packages-test` makes packages and installs them, runs the image,
// has a real Kubernetes API server accept the chart, and rehearses a rollout.
package deploy
