//! The messages clients of built-in kinds send, by field number.
//!
//! One line a field: its number, its name in JSON, its type. `[]` is a list, `{}` a map with text keys; `!` keeps a zero
//! that means something. What is not here (statuses only the server writes) is passed over.

pub const MESSAGES: &str = "
core.ConfigMap
  1 metadata meta.ObjectMeta
  2 data {}string
  3 binaryData {}bytes
  4 immutable bool
core.Secret
  1 metadata meta.ObjectMeta
  2 data {}bytes
  3 type string
  4 stringData {}string
  5 immutable bool
core.ServiceAccount
  1 metadata meta.ObjectMeta
  2 secrets []core.ObjectReference
  3 imagePullSecrets []core.LocalObjectReference
  4 automountServiceAccountToken bool!
core.Namespace
  1 metadata meta.ObjectMeta
  2 spec core.NamespaceSpec
  3 status core.NamespaceStatus
core.Node
  1 metadata meta.ObjectMeta
  2 spec core.NodeSpec
  3 status core.NodeStatus
core.Event
  1 metadata meta.ObjectMeta
  2 involvedObject core.ObjectReference
  3 reason string
  4 message string
  5 source core.EventSource
  6 firstTimestamp time
  7 lastTimestamp time
  8 count int
  9 type string
  10 eventTime microtime
  11 series core.EventSeries
  12 action string
  13 related core.ObjectReference
  14 reportingComponent string
  15 reportingInstance string
events.Event
  1 metadata meta.ObjectMeta
  2 eventTime microtime
  3 series events.EventSeries
  4 reportingController string
  5 reportingInstance string
  6 action string
  7 reason string
  8 regarding core.ObjectReference
  9 related core.ObjectReference
  10 note string
  11 type string
  12 deprecatedSource core.EventSource
  13 deprecatedFirstTimestamp time
  14 deprecatedLastTimestamp time
  15 deprecatedCount int
coordination.Lease
  1 metadata meta.ObjectMeta
  2 spec coordination.LeaseSpec
certificates.CertificateSigningRequest
  1 metadata meta.ObjectMeta
  2 spec certificates.CertificateSigningRequestSpec
  3 status certificates.CertificateSigningRequestStatus
rbac.Role
  1 metadata meta.ObjectMeta
  2 rules []rbac.PolicyRule
rbac.ClusterRole
  1 metadata meta.ObjectMeta
  2 rules []rbac.PolicyRule
  3 aggregationRule rbac.AggregationRule
rbac.RoleBinding
  1 metadata meta.ObjectMeta
  2 subjects []rbac.Subject
  3 roleRef rbac.RoleRef
rbac.ClusterRoleBinding
  1 metadata meta.ObjectMeta
  2 subjects []rbac.Subject
  3 roleRef rbac.RoleRef
authentication.TokenReview
  1 metadata meta.ObjectMeta
  2 spec authentication.TokenReviewSpec
authentication.TokenRequest
  1 metadata meta.ObjectMeta
  2 spec authentication.TokenRequestSpec
authentication.SelfSubjectReview
  1 metadata meta.ObjectMeta
authorization.SubjectAccessReview
  1 metadata meta.ObjectMeta
  2 spec authorization.SubjectAccessReviewSpec
authorization.LocalSubjectAccessReview
  1 metadata meta.ObjectMeta
  2 spec authorization.SubjectAccessReviewSpec
authorization.SelfSubjectAccessReview
  1 metadata meta.ObjectMeta
  2 spec authorization.SelfSubjectAccessReviewSpec
authorization.SelfSubjectRulesReview
  1 metadata meta.ObjectMeta
  2 spec authorization.SelfSubjectRulesReviewSpec
autoscaling.Scale
  1 metadata meta.ObjectMeta
  2 spec autoscaling.ScaleSpec
  3 status autoscaling.ScaleStatus
meta.DeleteOptions
  2 preconditions meta.Preconditions
  3 orphanDependents bool
  4 propagationPolicy string
  5 dryRun []string
meta.ObjectMeta
  1 name string
  2 generateName string
  3 namespace string
  5 uid string
  6 resourceVersion string
  7 generation int
  8 creationTimestamp time
  9 deletionTimestamp time
  10 deletionGracePeriodSeconds int
  11 labels {}string
  12 annotations {}string
  13 ownerReferences []meta.OwnerReference
  14 finalizers []string
  17 managedFields []meta.ManagedFieldsEntry
core.ObjectReference
  1 kind string
  2 namespace string
  3 name string
  4 uid string
  5 apiVersion string
  6 resourceVersion string
  7 fieldPath string
core.LocalObjectReference
  1 name string
core.NamespaceSpec
  1 finalizers []string
core.NamespaceStatus
  1 phase string
  2 conditions []core.NamespaceCondition
core.NodeSpec
  1 podCIDR string
  3 providerID string
  4 unschedulable bool
  5 taints []core.Taint
  7 podCIDRs []string
core.NodeStatus
  1 capacity {}quantity
  2 allocatable {}quantity
  3 phase string
  4 conditions []core.NodeCondition
  5 addresses []core.NodeAddress
  6 daemonEndpoints core.NodeDaemonEndpoints
  7 nodeInfo core.NodeSystemInfo
  8 images []core.ContainerImage
  9 volumesInUse []string
  10 volumesAttached []core.AttachedVolume
  12 runtimeHandlers []core.NodeRuntimeHandler
core.EventSource
  1 component string
  2 host string
core.EventSeries
  1 count int
  2 lastObservedTime microtime
events.EventSeries
  1 count int
  2 lastObservedTime microtime
coordination.LeaseSpec
  1 holderIdentity string
  2 leaseDurationSeconds int
  3 acquireTime microtime
  4 renewTime microtime
  5 leaseTransitions int!
  6 strategy string
  7 preferredHolder string
certificates.CertificateSigningRequestSpec
  1 request bytes
  2 username string
  3 uid string
  4 groups []string
  5 usages []string
  6 extra {}strings
  7 signerName string
  8 expirationSeconds int
certificates.CertificateSigningRequestStatus
  1 conditions []certificates.CertificateSigningRequestCondition
  2 certificate bytes
rbac.PolicyRule
  1 verbs []string
  2 apiGroups []string
  3 resources []string
  4 resourceNames []string
  5 nonResourceURLs []string
rbac.AggregationRule
  1 clusterRoleSelectors []meta.LabelSelector
rbac.Subject
  1 kind string
  2 apiGroup string
  3 name string
  4 namespace string
rbac.RoleRef
  1 apiGroup string
  2 kind string
  3 name string
authentication.TokenReviewSpec
  1 token string
  2 audiences []string
authentication.TokenRequestSpec
  1 audiences []string
  3 boundObjectRef authentication.BoundObjectReference
  4 expirationSeconds int
authorization.SubjectAccessReviewSpec
  1 resourceAttributes authorization.ResourceAttributes
  2 nonResourceAttributes authorization.NonResourceAttributes
  3 user string
  4 groups []string
  5 extra {}strings
  6 uid string
authorization.SelfSubjectAccessReviewSpec
  1 resourceAttributes authorization.ResourceAttributes
  2 nonResourceAttributes authorization.NonResourceAttributes
authorization.SelfSubjectRulesReviewSpec
  1 namespace string
autoscaling.ScaleSpec
  1 replicas int!
autoscaling.ScaleStatus
  1 replicas int!
  2 selector string
meta.Preconditions
  1 uid string
  2 resourceVersion string
meta.OwnerReference
  1 kind string
  3 name string
  4 uid string
  5 apiVersion string
  6 controller bool
  7 blockOwnerDeletion bool
meta.ManagedFieldsEntry
  1 manager string
  2 operation string
  3 apiVersion string
  4 time time
  6 fieldsType string
  7 fieldsV1 json
  8 subresource string
core.NamespaceCondition
  1 type string
  2 status string
  4 lastTransitionTime time
  5 reason string
  6 message string
core.Taint
  1 key string
  2 value string
  3 effect string
  4 timeAdded time
core.NodeCondition
  1 type string
  2 status string
  3 lastHeartbeatTime time
  4 lastTransitionTime time
  5 reason string
  6 message string
core.NodeAddress
  1 type string
  2 address string
core.NodeDaemonEndpoints
  1 kubeletEndpoint core.DaemonEndpoint
core.NodeSystemInfo
  1 machineID string
  2 systemUUID string
  3 bootID string
  4 kernelVersion string
  5 osImage string
  6 containerRuntimeVersion string
  7 kubeletVersion string
  8 kubeProxyVersion string
  9 operatingSystem string
  10 architecture string
  11 swap core.NodeSwapStatus
core.ContainerImage
  1 names []string
  2 sizeBytes int
core.AttachedVolume
  1 name string
  2 devicePath string
core.NodeRuntimeHandler
  1 name string
  2 features core.NodeRuntimeHandlerFeatures
certificates.CertificateSigningRequestCondition
  1 type string
  2 reason string
  3 message string
  4 lastUpdateTime time
  5 lastTransitionTime time
  6 status string
meta.LabelSelector
  1 matchLabels {}string
  2 matchExpressions []meta.LabelSelectorRequirement
authentication.BoundObjectReference
  1 kind string
  2 apiVersion string
  3 name string
  4 uid string
authorization.ResourceAttributes
  1 namespace string
  2 verb string
  3 group string
  4 version string
  5 resource string
  6 subresource string
  7 name string
authorization.NonResourceAttributes
  1 path string
  2 verb string
core.DaemonEndpoint
  1 Port int
core.NodeSwapStatus
  1 capacity int
core.NodeRuntimeHandlerFeatures
  1 recursiveReadOnlyMounts bool
  2 userNamespaces bool
meta.LabelSelectorRequirement
  1 key string
  2 operator string
  3 values []string
";
