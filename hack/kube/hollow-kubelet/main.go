package main

import (
	_ "k8s.io/kubernetes/pkg/kubemark"
)

func main() {}
