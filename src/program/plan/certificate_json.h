// How near a search came to the best program, as JSON: the same in a plan, in `compare` and in
// `share`.
//
//   json["certificate"] = CertificateToJson(plan.search.certificate);      // null if there is none
#pragma once

#include <optional>

#include "base/json_field.h"
#include "program/plan/plan.h"

namespace heddle {

Json CertificateToJson(const std::optional<SearchCertificate>& certificate);

}  // namespace heddle
