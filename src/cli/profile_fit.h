// Profiles that would have no effect are refused.
#pragma once

#include <string>

#include "base/result.h"
#include "cluster/cluster.h"
#include "cost/profile.h"

namespace heddle {

// Bad input: all times are of other types of devices than the cluster has. No profile: ok.
Status CheckProfileIsOf(const Cluster& cluster, const Profile* profile, const std::string& path);

}  // namespace heddle
