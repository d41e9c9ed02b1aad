// Reads custom resources as a JSON list, and writes what is wrong with each: its name and the validator's sentence.
import { readFileSync } from "node:fs";
import { ScaledObject } from "@kubernetes-models/keda/keda.sh/v1alpha1/ScaledObject";
import { PrometheusRule } from "@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1/PrometheusRule";
import { ServiceMonitor } from "@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1/ServiceMonitor";

const kinds = { ScaledObject, PrometheusRule, ServiceMonitor };
const wrong = [];
for (const resource of JSON.parse(readFileSync(0, "utf8"))) {
  try {
    new kinds[resource.kind](resource).validate();
  } catch (error) {
    wrong.push([resource.metadata?.name, error.message]);
  }
}
console.log(JSON.stringify(wrong));
