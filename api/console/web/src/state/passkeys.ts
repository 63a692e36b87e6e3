// What the browser is asked to do with passkeys (Web Authentication). It hands over the public key and
// the authenticator's data apart, so nothing here takes CBOR to pieces.
import { passkeys, type PasskeyAnswer } from "../api/calls";
import type { Passkey } from "../api/types";
import { decodeBase64url, encodeBase64url } from "../lib/base64url";
import { deviceName } from "../lib/text";

/** Whether there can be any here: browsers have them for names, by https or on this machine. */
export const possible = window.isSecureContext && typeof window.PublicKeyCredential === "function"
  && !/^([\d.]+|\[.*\])$/.test(window.location.hostname);

/** Nobody's fault: the person has not gone on with it, or the device has no such passkey. */
export class NotUsed extends Error {}

async function asked<T>(question: Promise<T | null>): Promise<T> {
  try {
    const answer = await question;
    if (answer !== null) {
      return answer;
    }
  } catch (thrown) {
    if (!(thrown instanceof DOMException)) {
      throw thrown;
    }
    // One that this account has already is not made again.
    throw new NotUsed(thrown.name === "InvalidStateError" ? "This device has a passkey for this account already." : "No passkey was used.");
  }
  throw new NotUsed("No passkey was used.");
}

/** Asks for a signature. Throws NotUsed, and ApiFailure when there is no challenge. */
export async function useOne(): Promise<PasskeyAnswer> {
  const { challenge, rp_id } = await passkeys.challenge();
  const credential = await asked(navigator.credentials.get({
    publicKey: { challenge: decodeBase64url(challenge), rpId: rp_id, userVerification: "required" },
  })) as PublicKeyCredential;
  const response = credential.response as AuthenticatorAssertionResponse;
  return {
    credential_id: encodeBase64url(credential.rawId),
    client_data: encodeBase64url(response.clientDataJSON),
    authenticator_data: encodeBase64url(response.authenticatorData),
    signature: encodeBase64url(response.signature),
    user_handle: encodeBase64url(response.userHandle ?? new ArrayBuffer(0)),
  };
}

/** Makes one, named after this device. Throws as `useOne`. */
export async function makeOne(): Promise<Passkey> {
  const invitation = await passkeys.invite();
  const credential = await asked(navigator.credentials.create({
    publicKey: {
      challenge: decodeBase64url(invitation.challenge),
      rp: { id: invitation.rp_id, name: "Audio console" },
      user: { id: decodeBase64url(invitation.user_handle), name: invitation.user_name, displayName: invitation.user_name },
      // Ed25519, ES256, RS256.
      pubKeyCredParams: [-8, -7, -257].map((alg) => ({ type: "public-key", alg })),
      excludeCredentials: invitation.exclude.map((id) => ({ type: "public-key", id: decodeBase64url(id) })),
      authenticatorSelection: { residentKey: "required", requireResidentKey: true, userVerification: "required" },
      attestation: "none",
    },
  })) as PublicKeyCredential;
  const response = credential.response as AuthenticatorAttestationResponse;
  const key = response.getPublicKey();
  if (key === null) {
    throw new NotUsed("This browser cannot hand over the passkey's public key.");
  }
  return passkeys.add({
    name: deviceName(navigator.userAgent),
    client_data: encodeBase64url(response.clientDataJSON),
    authenticator_data: encodeBase64url(response.getAuthenticatorData()),
    public_key: encodeBase64url(key),
  });
}
