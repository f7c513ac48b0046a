// Command manager-after is a controller that elects with Conclave.
package main

import (
	"log"

	"github.com/conclave-project/conclave/election/controller"
	ctrl "sigs.k8s.io/controller-runtime"
)

func main() {
	options := ctrl.Options{LeaderElection: true, LeaderElectionID: "reports.example.com", LeaderElectionReleaseOnCancel: true}
	// before: mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), options)
	mgr, err := controller.NewManager(ctrl.GetConfigOrDie(), options, controller.Election{})
	if err != nil {
		log.Fatal(err)
	}
	if err := mgr.Start(ctrl.SetupSignalHandler()); err != nil {
		log.Fatal(err)
	}
}
