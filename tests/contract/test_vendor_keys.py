"""Keys as they are on Aliyun: each place of the vendor's chain, each mode of a profile, by fake servers.

Every key, token and secret of this world begins with `canary`, so that one look finds any that got out.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.worlds.fake_aliyun import OIDC_TOKEN, ROLE, USER, FakeAliyun, Told, fake_aliyun

CHAIN = {"provider": "default"}
PROFILE = {"provider": "profile"}
IMDS = ["metadata token", "metadata keys", "metadata token", "metadata keys"]
FIRST = "STS.canary-0"
USER_WORDS = {"access_key_id": USER[0], "access_key_secret": USER[1]}
ROLE_WORDS = {"ram_role_arn": ROLE, "ram_session_name": "sls-lake"}


@pytest.fixture
def aliyun(tmp_path: Path) -> Iterator[FakeAliyun]:
    with fake_aliyun(tmp_path) as aliyun:
        yield aliyun


def assert_no_secret_out(told: Told) -> None:
    assert "canary" not in told.error + told.stderr


@pytest.fixture
def oidc(tmp_path: Path) -> dict[str, str]:
    """What ACK sets in a pod of a service account that has a role."""
    (tmp_path / "token").write_text(OIDC_TOKEN)
    return {
        "ALIBABA_CLOUD_ROLE_ARN": ROLE,
        "ALIBABA_CLOUD_OIDC_PROVIDER_ARN": "acs:ram::1234:oidc-provider/ack",
        "ALIBABA_CLOUD_OIDC_TOKEN_FILE": str(tmp_path / "token"),
    }


def test_the_environment_comes_first(aliyun: FakeAliyun, oidc: dict[str, str]) -> None:
    variables = {"ALIBABA_CLOUD_ACCESS_KEY_ID": USER[0], "ALIBABA_CLOUD_ACCESS_KEY_SECRET": USER[1]}
    told = aliyun.resolve(CHAIN, {**variables, **oidc})
    assert told.keys == [[*USER, "", float("inf"), "environment"]], "a user's, without an end"
    assert aliyun.asked == []


def test_a_pod_of_ack_has_the_role_of_its_service_account(aliyun: FakeAliyun, oidc: dict[str, str]) -> None:
    told = aliyun.resolve(CHAIN, oidc)
    assert told.ids == ["STS.canary-0"] and told.keys[0][2] == "canary-token-0"
    assert aliyun.asked == ["AssumeRoleWithOIDC"]


def test_an_ecs_has_its_role_by_a_session_of_the_metadata_service(aliyun: FakeAliyun) -> None:
    assert len(aliyun.resolve(CHAIN).ids) == 1
    assert aliyun.asked == IMDS, "no call without a token"


def test_a_uri_gives_keys(aliyun: FakeAliyun) -> None:
    told = aliyun.resolve(
        CHAIN, {"ALIBABA_CLOUD_ECS_METADATA_DISABLED": "true", "ALIBABA_CLOUD_CREDENTIALS_URI": aliyun.uri}
    )
    assert told.ids == ["STS.canary-0"] and aliyun.asked == ["URI"]


MODES = [
    ({"mode": "AK"}, [], USER[0]),
    ({"mode": "StsToken", "sts_token": "canary-token"}, [], USER[0]),
    ({"mode": "RamRoleArn", **ROLE_WORDS}, ["AssumeRole"], "STS.canary-0"),
    (
        {"mode": "ChainableRamRoleArn", "source_profile": "other", **ROLE_WORDS},
        ["AssumeRole"],
        "STS.canary-0",
    ),
    (
        {"mode": "EcsRamRole", "ram_role_name": "node-role"},
        ["metadata token", "metadata keys"],
        "STS.canary-1",
    ),
]


@pytest.mark.parametrize("provider", [PROFILE, CHAIN])
@pytest.mark.parametrize(("words", "asked", "key"), MODES)
def test_a_profile_signs_as_what_its_mode_says(
    provider: dict[str, str], words: dict[str, str], asked: list[str], key: str, aliyun: FakeAliyun
) -> None:
    """In most modes the pair of a user stands there, too, which the signature must not be of."""
    aliyun.profile(**words, **USER_WORDS)
    aliyun.profile("other", mode="AK", **USER_WORDS)
    assert aliyun.resolve(provider).ids == [key]
    assert aliyun.asked == asked


def test_a_profile_may_name_a_program(aliyun: FakeAliyun, tmp_path: Path) -> None:
    keys = {"mode": "AK", "access_key_id": "canary-program", "access_key_secret": "canary-secret"}
    (tmp_path / "keys.json").write_text(json.dumps(keys))
    aliyun.profile(mode="External", process_command=f"cat {tmp_path / 'keys.json'}", **USER_WORDS)
    assert aliyun.resolve(PROFILE).ids == ["canary-program"]


@pytest.mark.parametrize("mode", ["Martian", "CloudSSO", "OAuth", "RamRoleArn", "OIDC"])
def test_a_mode_that_cannot_be_followed_is_refused_and_never_the_users_own_key(
    mode: str, aliyun: FakeAliyun
) -> None:
    aliyun.profile(mode=mode, **USER_WORDS)
    told = aliyun.resolve(PROFILE)
    assert told.keys == [] and "profile 'default' (" in told.error
    assert aliyun.asked == []
    assert_no_secret_out(told)


def test_without_keys_each_place_is_named_with_what_it_lacks(aliyun: FakeAliyun) -> None:
    aliyun.fail["metadata token"] = (404, "")
    told = aliyun.resolve(CHAIN, {"ALIBABA_CLOUD_IMDSV1_DISABLED": "true"})
    places = ["environment", "OIDC", "~/.aliyun/config.json", "~/.alibabacloud/credentials", "ECS role"]
    assert [told.error.find(f"{place} (") > 0 for place in (*places, "credentials URI")] == [True] * 6
    assert "accessKeyId cannot be empty" in told.error and "HttpCode=404" in told.error


REFUSALS = [
    ((403, {"Code": "NoPermission", "Message": "not authorized to do this", "RequestId": "r-1"}),
     "NoPermission: not authorized to do this (request r-1)"),
    ((400, {"Code": "SignatureDoesNotMatch", "Message": "string to sign is canary-user-id"}),
     "SignatureDoesNotMatch (request -)"),
    ((500, "canary no JSON"), "error refreshing credentials from ram_role_arn, http_code"),
    ((200, {"Credentials": {"AccessKeySecret": "canary-half-a-key"}}), "error retrieving credentials"),
    ((200, {"Credentials": {"AccessKeyId": "canary", "AccessKeySecret": "canary", "SecurityToken": "canary",
                            "Expiration": "canary"}}), "ValueError"),
]  # fmt: skip


@pytest.mark.parametrize(("answer", "said"), REFUSALS)
def test_what_sts_says_is_said_and_no_key_of_it(
    answer: tuple[int, dict[str, str] | str], said: str, aliyun: FakeAliyun
) -> None:
    """The library puts whole answers into its exceptions, and writes them into its log."""
    aliyun.profile(mode="RamRoleArn", **ROLE_WORDS, **USER_WORDS)
    aliyun.fail["AssumeRole"] = answer
    told = aliyun.resolve(PROFILE)
    assert told.keys == [] and said in told.error
    assert_no_secret_out(told)


def test_where_sts_does_not_answer_no_address_with_a_key_is_said(aliyun: FakeAliyun) -> None:
    aliyun.profile(mode="RamRoleArn", **ROLE_WORDS, **USER_WORDS)
    told = aliyun.resolve(PROFILE, {"HTTPS_PROXY": "http://127.0.0.1:1"})
    assert "RetryError" in told.error
    assert_no_secret_out(told)


def test_keys_of_a_role_are_kept_until_they_near_their_end_or_are_refused(aliyun: FakeAliyun) -> None:
    aliyun.profile(mode="RamRoleArn", **ROLE_WORDS, **USER_WORDS)
    ids = aliyun.resolve(PROFILE, times=3).ids
    assert ids == ["STS.canary-0", "STS.canary-1", "STS.canary-1"], "refused again within a minute: the same"

    aliyun.lives_s = 600
    ids = aliyun.resolve(PROFILE, times=3).ids
    assert len(set(ids)) == 3, "less than a quarter of an hour is left, so each call asks"
