// Command site makes a site of the documentation: pages of HTML with a menu and a search, that
// need no server and no network. It is a module of its own, so that no other build pays for the
// renderer of Markdown.
//
//	go run . -o DIR -version v0.2.0 -lab LAB
//
// DIR gets a folder for the version, with the laboratory of LAB (`conclave lab --export`) in it,
// a list of the versions that are there, and a page that leads to the newest. A link that leads
// nowhere is an error.
package main
