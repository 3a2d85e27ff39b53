# The images for x86-64 and ARM64, with a builder that makes both:
#   docker buildx bake --file docker/docker-bake.hcl --push
# or for one processor, into the local engine:
#   docker buildx bake --file docker/docker-bake.hcl --set '*.platform=linux/arm64' --load

variable "REPOSITORY" { default = "a2perf" }
variable "BASE_IMAGE" { default = "debian:bookworm-slim" }
variable "DOMAINS" { default = ["circuit_training", "quadruped_locomotion", "web_navigation"] }

group "default" { targets = ["base", "domain"] }

target "base" {
  dockerfile = "docker/base.Dockerfile"
  platforms = ["linux/amd64", "linux/arm64"]
  args = { BASE_IMAGE = BASE_IMAGE }
  tags = ["${REPOSITORY}:base"]
}

target "domain" {
  name = domain
  matrix = { domain = DOMAINS }
  inherits = ["base"]
  dockerfile = "docker/${domain}.Dockerfile"
  contexts = { base = "target:base" }
  args = { BASE = "base" }
  tags = ["${REPOSITORY}:${domain}"]
}
