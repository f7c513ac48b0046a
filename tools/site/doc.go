// Command site makes a site of the documentation: HTML pages with a menu and a search that
// need no server and no network. It is a separate module, so no other build needs the
// Markdown renderer.
//
//	go run . -o DIR -version v0.2.0 -lab LAB
//
// DIR gets a directory for the version, which includes the laboratory of LAB (`conclave lab
// --export`), a list of the existing versions, and a page that leads to the newest. A
// broken link is an error.
package main
