// SPDX-License-Identifier: MIT
/*
 * Molecular dynamics of water with OpenMM: what its users do, as one program without Python.
 *
 * usage: openmm EDGE STEPS [PLATFORM]: EDGE^3 molecules of three sites with rigid bonds, particle
 * mesh Ewald, Langevin's integrator with steps of 2 fs. libOpenMMCUDA.so lies beside the program.
 * Prints the energy after 100 steps, which any two runs share, and the loop's time.
 */
#include <OpenMM.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

using OpenMM::Vec3;

static const double SPACING = 0.3107; /* nm, between molecules: the density of water */
static const double BOND = 0.09572, ACROSS = 0.15139; /* nm: O-H, and H-H */
static const int SHARED = 100,
                 WARM = 500; /* steps before the energy is printed, and before the loop */

static void addMolecule(OpenMM::System &system, OpenMM::NonbondedForce &force)
{
    int oxygen = system.addParticle(15.999);
    system.addParticle(1.008);
    system.addParticle(1.008);
    force.addParticle(-0.834, 0.315075, 0.635968);
    force.addParticle(0.417, 1, 0);
    force.addParticle(0.417, 1, 0);
    system.addConstraint(oxygen, oxygen + 1, BOND);
    system.addConstraint(oxygen, oxygen + 2, BOND);
    system.addConstraint(oxygen + 1, oxygen + 2, ACROSS);
    for (int k = 0; k < 3; k++)
        force.addException(oxygen + k, oxygen + (k + 1) % 3, 0, 1, 0);
}

/* Molecules on a lattice, turned in one of two ways. */
static std::vector<Vec3> places(int edge)
{
    const double half = ACROSS / 2, height = 0.058588;
    std::vector<Vec3> at;
    for (int k = 0; k < edge * edge * edge; k++) {
        int x = k % edge, y = k / edge % edge, z = k / edge / edge;
        double sign = (x + y + z) % 2 ? 1 : -1;
        Vec3 oxygen = Vec3(x, y, z) * SPACING;
        at.push_back(oxygen);
        at.push_back(oxygen + Vec3(half, sign * height, 0));
        at.push_back(oxygen + Vec3(-half, sign * height, 0));
    }
    return at;
}

static void run(int edge, int steps, const std::string &platform)
{
    OpenMM::System system;
    auto *force = new OpenMM::NonbondedForce();
    for (int k = 0; k < edge * edge * edge; k++)
        addMolecule(system, *force);
    const double side = edge * SPACING;
    system.setDefaultPeriodicBoxVectors(Vec3(side, 0, 0), Vec3(0, side, 0), Vec3(0, 0, side));
    force->setNonbondedMethod(OpenMM::NonbondedForce::PME);
    force->setCutoffDistance(0.9);
    system.addForce(force);
    OpenMM::LangevinMiddleIntegrator integrator(300, 5, 0.002);
    integrator.setRandomNumberSeed(1);
    std::map<std::string, std::string> properties;
    if (platform == "CUDA")
        properties = {{"Precision", "mixed"}, {"DeterministicForces", "true"}};
    OpenMM::Context context(system, integrator, OpenMM::Platform::getPlatformByName(platform),
                            properties);
    context.setPositions(places(edge));
    OpenMM::LocalEnergyMinimizer::minimize(context, 10, 50);
    context.setVelocitiesToTemperature(300, 1);
    integrator.step(SHARED);
    std::printf("energy after %d steps: %.6e kJ/mol\n", SHARED,
                context.getState(OpenMM::State::Energy).getPotentialEnergy());
    integrator.step(WARM);
    context.getState(OpenMM::State::Energy);
    auto start = std::chrono::steady_clock::now();
    integrator.step(steps);
    OpenMM::State state = context.getState(OpenMM::State::Energy);
    std::chrono::duration<double> loop = std::chrono::steady_clock::now() - start;
    double kelvin = 2 * state.getKineticEnergy() / (6 * edge * edge * edge * 0.00831446);
    std::printf("temperature is %s\n", kelvin > 250 && kelvin < 350 ? "right" : "wrong");
    std::printf("loop: %.6f s\n", loop.count());
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        std::fprintf(stderr, "usage: openmm EDGE STEPS [PLATFORM]\n");
        return 2;
    }
    const std::string platform = argc > 3 ? argv[3] : "CUDA";
    try {
        auto folder = std::filesystem::canonical("/proc/self/exe").parent_path();
        if (platform == "CUDA")
            OpenMM::Platform::loadPluginLibrary((folder / "libOpenMMCUDA.so").string());
        run(std::atoi(argv[1]), std::atoi(argv[2]), platform);
    } catch (const std::exception &problem) {
        std::fprintf(stderr, "openmm: %s\n", problem.what());
        return 1;
    }
    return 0;
}
